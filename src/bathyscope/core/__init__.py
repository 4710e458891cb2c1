"""Records, errors, the blocks of any module, and the context that puts a model back as it was."""

from typing import TYPE_CHECKING

from bathyscope._lazy import lazy

if TYPE_CHECKING:
    from bathyscope.core.batch import Batch as Batch
    from bathyscope.core.batch import LossFn as LossFn
    from bathyscope.core.blocks import Blocks as Blocks
    from bathyscope.core.blocks import blocks_of as blocks_of
    from bathyscope.core.calls import unwrap as unwrap
    from bathyscope.core.drop import drop_branch as drop_branch
    from bathyscope.core.errors import BathyscopeError as BathyscopeError
    from bathyscope.core.errors import UnknownName as UnknownName
    from bathyscope.core.errors import UsageError as UsageError
    from bathyscope.core.preserve import preserve_model as preserve_model
    from bathyscope.core.probe import Observer as Observer
    from bathyscope.core.probe import Probe as Probe
    from bathyscope.core.probe import probe as probe
    from bathyscope.core.protocol import ChangesDimension as ChangesDimension
    from bathyscope.core.protocol import DeclaresBlocks as DeclaresBlocks
    from bathyscope.core.protocol import Droppable as Droppable
    from bathyscope.core.records import Assumption as Assumption
    from bathyscope.core.records import Block as Block
    from bathyscope.core.records import ClaimCheck as ClaimCheck
    from bathyscope.core.records import Finding as Finding
    from bathyscope.core.records import Measurement as Measurement
    from bathyscope.core.records import Severity as Severity
    from bathyscope.core.records import Verdict as Verdict

# lazy, because the command line needs the errors before it needs torch
__getattr__, __dir__, __all__ = lazy(
    __name__,
    names={
        "Batch": "batch",
        "LossFn": "batch",
        "Blocks": "blocks",
        "blocks_of": "blocks",
        "unwrap": "calls",
        "drop_branch": "drop",
        "BathyscopeError": "errors",
        "UnknownName": "errors",
        "UsageError": "errors",
        "preserve_model": "preserve",
        "Observer": "probe",
        "Probe": "probe",
        "probe": "probe",
        "ChangesDimension": "protocol",
        "DeclaresBlocks": "protocol",
        "Droppable": "protocol",
        "Assumption": "records",
        "Block": "records",
        "ClaimCheck": "records",
        "Finding": "records",
        "Measurement": "records",
        "Severity": "records",
        "Verdict": "records",
    },
)
