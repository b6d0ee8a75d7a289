"""Everything that a process opens on Kafka: one connection, one copy of the book, one task that follows events."""

from __future__ import annotations

from collections.abc import Callable

from kith.core.clock import wall_ms
from kith.engines.kafka.book import EXPELLED_S, OpenBook
from kith.engines.kafka.broker import ANSWERED_S, Broker
from kith.engines.kafka.commands import KafkaCommands
from kith.engines.kafka.log_store import KafkaLog
from kith.engines.kafka.owning import Owning
from kith.engines.kafka.recent import Recent
from kith.engines.kafka.retention import KEEP, PartitionBounds
from kith.log.commands import Owner


class KafkaEngine:
    """Commands and the log over one broker (see `connecting.Kafka`). The caller closes the broker after this."""

    def __init__(
        self,
        broker: Broker,
        partition_of: Callable[[int], int],
        *,
        keep: PartitionBounds = KEEP,
        now_ms: Callable[[], int] = wall_ms,
        answered_s: float = ANSWERED_S,
        expelled_s: float = EXPELLED_S,
    ) -> None:
        """`partition_of`: the partition whose owner decides about a node, and so appends its events."""
        self._broker, self._keep, self._now_ms = broker, keep, now_ms
        self._book = OpenBook(broker, expelled_s)
        self._recent = Recent(broker, self._book)
        self.commands = KafkaCommands(broker, self._recent, self._book.positions, answered_s)
        self.log = KafkaLog(broker, self._book, self._recent, partition_of, keep, now_ms)

    async def owning(self, owner: Owner) -> Owning:
        """Start to own partitions. Close the result before this engine."""
        owning = Owning(self._broker, self._book, owner, self._keep, self._now_ms)
        await owning.start()
        return owning

    async def close(self) -> None:
        """Hand over the partitions of this process's subscriptions, and stop following."""
        await self._recent.close()
        await self._book.close()
