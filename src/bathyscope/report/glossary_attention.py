"""The quantities of attention and of a transformer's stream, told and drawn."""

from bathyscope.report.quantity import Quantity

ATTENTION: dict[str, Quantity] = {
    "attention.entropy": Quantity(
        label="attention entropy",
        what="−Σ p ln p of a row over ln(keys seen), mean over rows and heads.",
        good="Between 0.1 and 1; near 1 at the start of most networks.",
        why="At 0 every query takes one key alone, and the softmax passes no gradient.",
        scale="linear",
        direction="low",
        anchors=(0.1, 0.01),
        role="main",
    ),
    "attention.lowest_entropy": Quantity(
        label="lowest entropy of a head", what="The least of the block's heads.", scale="linear"
    ),
    "attention.largest_logit": Quantity(
        label="largest attention logit",
        what="Greatest |q·k·scale| among the keys that are seen.",
        good="Below 50.",
        why="It grows before attention collapses and the loss jumps.",
        scale="log",
        direction="high",
        anchors=(50.0, 1e3),
        role="main",
    ),
    "attention.logit_std": Quantity(
        label="spread of attention logits",
        what="Deviation of a row's scores, mean over rows.",
        good="0.01 to 3.",
        scale="log",
    ),
    "attention.uniform_rows": Quantity(
        label="uniform rows", what="Rows with 0.999 of the greatest entropy.", scale="share"
    ),
    "attention.one_hot_rows": Quantity(
        label="one-hot rows",
        what="Rows that give one key 0.99 of their weight.",
        good="Few; a head that always looks at one key may be one of them.",
        why="A one-hot row passes no gradient through its softmax.",
        scale="share",
        direction="high",
        anchors=(0.5, 1.0),
    ),
    "attention.masked_rows": Quantity(
        label="rows that see nothing",
        what="Queries all of whose keys are masked, of the head with most.",
        good="0.",
        why="A softmax over no key is 0/0.",
        scale="share",
        direction="high",
        anchors=(0.001, 0.1),
    ),
    "attention.dead_heads": Quantity(
        label="dead heads",
        what="Heads that give out nothing, or whose values receive no gradient, while others do.",
        good="0.",
        why="They neither add nor learn anything.",
        scale="share",
        direction="high",
        anchors=(0.01, 0.5),
    ),
    "attention.attention_size": Quantity(
        label="size of the attention branch",
        what="‖branch‖/‖stream‖ of the sum.",
        good="0.01 to 3.",
        scale="log",
    ),
    "attention.mlp_size": Quantity(
        label="size of the feed-forward branch",
        what="‖branch‖/‖stream‖ of the sum.",
        good="0.01 to 3.",
        scale="log",
    ),
    "attention.token_likeness": Quantity(
        label="likeness of tokens",
        what="Mean cosine between two tokens of a sequence at the block's output.",
        good="Below 0.9.",
        why="At 1 all tokens of a sequence are one.",
        scale="linear",
        direction="high",
        anchors=(0.95, 1.0),
        role="main",
    ),
    "attention.token_spread": Quantity(
        label="spread of tokens",
        what="‖X − 1x̄ᵀ‖/‖X‖ of a sequence's tokens.",
        good="Above 0.05.",
        why="It falls to zero, doubly exponentially with depth, where attention stands alone.",
        scale="log",
        direction="low",
        anchors=(0.05, 1e-3),
    ),
    "attention.stream_growth": Quantity(
        label="growth of the stream",
        what="‖output‖ over ‖input of the first block‖.",
        scale="log",
    ),
}
