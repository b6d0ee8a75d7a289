"""`kith plan`: what a community of a given size needs, on one machine and on a cluster.

`inputs` holds the demand and the assumptions with their sources. `arithmetic` makes the plan: `embedded` is one
machine, with the limits that it breaks, and `cluster` is nodes by role. `article` recomputes the published arithmetic
of a system of 500 million users, with a verdict on each line; `docs/capacity.md` shows plan and verdicts.
`notifications` and `article_003` do the same for mentions; `docs/capacity-of-mentions.md` shows them.
Nothing here does I/O.
"""

from kith.commands.capacity.arithmetic import (
    Bound,
    CapacityPlan,
    ClusterPlan,
    EmbeddedPlan,
    Memory,
    Network,
    Role,
    Storage,
    plan,
)
from kith.commands.capacity.article import ArticleRow, ClaimVerdict, article_000, in_words
from kith.commands.capacity.article_003 import article_003
from kith.commands.capacity.inputs import ARTICLE_DEMAND, Assumptions, Demand, per_second
from kith.commands.capacity.notifications import (
    MENTION_LINES,
    MentionCost,
    MentionDemand,
    MentionFigures,
    mention_costs,
)

__all__ = [
    "ARTICLE_DEMAND",
    "MENTION_LINES",
    "ArticleRow",
    "Assumptions",
    "Bound",
    "CapacityPlan",
    "ClaimVerdict",
    "ClusterPlan",
    "Demand",
    "EmbeddedPlan",
    "Memory",
    "MentionCost",
    "MentionDemand",
    "MentionFigures",
    "Network",
    "Role",
    "Storage",
    "article_000",
    "article_003",
    "in_words",
    "mention_costs",
    "per_second",
    "plan",
]
