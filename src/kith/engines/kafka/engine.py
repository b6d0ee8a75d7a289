"""Everything that a process opens on Kafka: one connection, one copy of the registry, one task that follows events."""

from __future__ import annotations

from collections.abc import Callable

from kith.core.clock import wall_ms
from kith.engines.kafka.broker import ANSWER_TIMEOUT_S, Broker
from kith.engines.kafka.commands import KafkaCommands
from kith.engines.kafka.log_store import KafkaLog
from kith.engines.kafka.owner_runner import OwnerRunner
from kith.engines.kafka.recent_events import RecentEvents
from kith.engines.kafka.registry import EXPEL_AFTER_S, RegistryReplica
from kith.engines.kafka.retention import DEFAULT_BOUNDS, PartitionBounds
from kith.log.commands import Owner


class KafkaEngine:
    """Commands and the log over one broker (see `connecting.Kafka`). The caller closes the broker after this."""

    def __init__(
        self,
        broker: Broker,
        partition_of: Callable[[int], int],
        *,
        keep: PartitionBounds = DEFAULT_BOUNDS,
        now_ms: Callable[[], int] = wall_ms,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        expel_after_s: float = EXPEL_AFTER_S,
    ) -> None:
        """`partition_of`: the partition whose owner decides about a node, and so appends its events."""
        self._broker, self._keep, self._now_ms = broker, keep, now_ms
        self._registry = RegistryReplica(broker, expel_after_s)
        self._recent = RecentEvents(broker, self._registry)
        self.commands = KafkaCommands(broker, self._recent, self._registry.positions, answer_timeout_s)
        self.log = KafkaLog(broker, self._registry, self._recent, partition_of, keep, now_ms)

    async def start_owner(self, owner: Owner) -> OwnerRunner:
        """Start to own partitions. Close the result before this engine."""
        runner = OwnerRunner(self._broker, self._registry, owner, self._keep, self._now_ms)
        await runner.start()
        return runner

    async def close(self) -> None:
        """Hand over the partitions of this process's subscriptions, and stop following."""
        await self._recent.close()
        await self._registry.close()
