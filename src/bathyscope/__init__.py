"""bathyscope tells you why a very deep network trains, or why it does not, block by block, and fixes it.

Nothing heavy is imported until a name is used: `import bathyscope` does not load torch.
"""

from typing import TYPE_CHECKING

from bathyscope._lazy import lazy

__version__ = "0.2.0"

if TYPE_CHECKING:
    from bathyscope import certificates as certificates
    from bathyscope import claims as claims
    from bathyscope import core as core
    from bathyscope import curvature as curvature
    from bathyscope import data as data
    from bathyscope import diagnosis as diagnosis
    from bathyscope import estimators as estimators
    from bathyscope import foresight as foresight
    from bathyscope import inits as inits
    from bathyscope import linalg as linalg
    from bathyscope import measure as measure
    from bathyscope import nets as nets
    from bathyscope import recorder as recorder
    from bathyscope import remedies as remedies
    from bathyscope import report as report
    from bathyscope import rules as rules
    from bathyscope import runs as runs
    from bathyscope import studies as studies
    from bathyscope import sweep as sweep
    from bathyscope import training as training
    from bathyscope.certificates import certify as certify
    from bathyscope.core import blocks_of as blocks_of
    from bathyscope.core import preserve_model as preserve_model
    from bathyscope.curvature import hessian as hessian
    from bathyscope.diagnosis import compare as compare
    from bathyscope.diagnosis import coordinate_check as coordinate_check
    from bathyscope.diagnosis import diagnose as diagnose
    from bathyscope.diagnosis import explain as explain
    from bathyscope.diagnosis import treat as treat
    from bathyscope.diagnosis import twin as twin
    from bathyscope.foresight import forecast as forecast
    from bathyscope.recorder.autopsy import autopsy as autopsy
    from bathyscope.recorder.watch import watch as watch

__getattr__, __dir__, __all__ = lazy(
    __name__,
    modules=[
        "certificates",
        "claims",
        "core",
        "curvature",
        "data",
        "diagnosis",
        "estimators",
        "foresight",
        "inits",
        "linalg",
        "measure",
        "nets",
        "recorder",
        "remedies",
        "report",
        "rules",
        "runs",
        "studies",
        "sweep",
        "training",
    ],
    names={
        "autopsy": "recorder",
        "blocks_of": "core",
        "certify": "certificates",
        "compare": "diagnosis",
        "coordinate_check": "diagnosis",
        "diagnose": "diagnosis",
        "explain": "diagnosis",
        "forecast": "foresight",
        "hessian": "curvature",
        "preserve_model": "core",
        "treat": "diagnosis",
        "twin": "diagnosis",
        "watch": "recorder",
    },
)
__all__ += ["__version__"]
