// The scenario of a cluster in ../README.md through Lettuce, in RESP2 and in RESP3.

import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisReadOnlyException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode.NodeFlag;
import io.lettuce.core.cluster.pubsub.RedisClusterPubSubAdapter;
import io.lettuce.core.cluster.pubsub.StatefulRedisClusterPubSubConnection;
import io.lettuce.core.protocol.ProtocolVersion;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

public final class ClusterCheck {
    private static int checks;

    private static synchronized void expect(Object found, Object wanted) {
        checks++;
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError("check " + checks + ": " + found + " instead of " + wanted);
        }
    }

    /** Waits for a condition. The caller's time limit ends a program whose condition never holds. */
    private static void until(Callable<Boolean> holds) throws Exception {
        while (!holds.call()) {
            Thread.sleep(10);
        }
    }

    private static void refused(String error, Callable<?> call) throws Exception {
        try {
            expect(call.call(), error);
        } catch (RedisCommandExecutionException refused) {
            expect(refused.getMessage().startsWith(error) ? error : refused.getMessage(), error);
        }
    }

    private final RedisClusterClient client;
    private final StatefulRedisClusterConnection<String, String> connection;
    private final RedisAdvancedClusterCommands<String, String> redis;

    private ClusterCheck(RedisClusterClient client) throws Exception {
        this.client = client;
        connection = client.connect();
        redis = connection.sync();
    }

    private RedisClusterNode ownerOf(int slot) {
        client.refreshPartitions();
        return client.getPartitions().getPartitionBySlot(slot);
    }

    private RedisCommands<String, String> at(RedisClusterNode node) {
        return connection.getConnection(node.getUri().getHost(), node.getUri().getPort()).sync();
    }

    private List<RedisClusterNode> primaries() {
        client.refreshPartitions();
        return client.getPartitions().stream().filter(node -> node.is(NodeFlag.UPSTREAM)).toList();
    }

    private boolean isEmptied() {
        try {
            return redis.flushall().equals("OK");
        } catch (RedisReadOnlyException refused) {
            client.refreshPartitions();
            return false;
        }
    }

    private void keysOfAllNodes() throws Exception {
        Map<String, String> values = new LinkedHashMap<>();
        for (int n = 0; n < 300; n++) {
            values.put("java:" + n, "" + n);
        }
        // The library splits these by slots.
        expect(redis.mset(values), "OK");
        expect(redis.mget(values.keySet().toArray(String[]::new)).stream().map(KeyValue::getValue).toList(),
                List.copyOf(values.values()));
        expect(redis.dbsize(), 300L);
        for (RedisClusterNode node : primaries()) {
            expect(at(node).dbsize() > 0, true);
        }
        Set<String> seen = new HashSet<>();
        KeyScanCursor<String> cursor = redis.scan(ScanArgs.Builder.limit(20).match("java:*"));
        seen.addAll(cursor.getKeys());
        while (!cursor.isFinished()) {
            cursor = redis.scan(cursor, ScanArgs.Builder.limit(20).match("java:*"));
            seen.addAll(cursor.getKeys());
        }
        expect(seen, values.keySet());
        RedisClusterNode owner = ownerOf(SlotHash.getSlot("java:0"));
        RedisClusterNode other = primaries().stream().filter(node -> !node.getNodeId().equals(owner.getNodeId()))
                .findFirst().orElseThrow();
        refused("MOVED " + SlotHash.getSlot("java:0"), () -> at(other).get("java:0"));
        List<RedisFuture<Long>> together = new ArrayList<>();
        for (String key : values.keySet()) {
            together.add(connection.async().incr(key));
        }
        for (int n = 0; n < 300; n++) {
            expect(together.get(n).get(), n + 1L);
        }
        String digest = redis.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        String[] keys = {"{java:t}a"};
        expect(redis.evalsha(digest, ScriptOutputType.INTEGER, keys, "5"), 5L);
        String[] two = {"java:0", "java:1"};
        refused("CROSSSLOT", () -> redis.eval("return 1", ScriptOutputType.INTEGER, two));
        RedisCommands<String, String> node = at(ownerOf(SlotHash.getSlot("{java:t}a")));
        node.multi();
        node.incr("{java:t}a");
        node.incr("{java:t}b");
        expect(List.copyOf(node.exec().stream().toList()), List.of(6L, 1L));
    }

    private void messages() throws Exception {
        LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
        try (StatefulRedisClusterPubSubConnection<String, String> listener = client.connectPubSub()) {
            listener.addListener(new RedisClusterPubSubAdapter<>() {
                @Override
                public void message(RedisClusterNode node, String channel, String message) {
                    heard.add(channel + " " + message);
                }

                @Override
                public void smessage(RedisClusterNode node, String channel, String message) {
                    heard.add("shard " + channel + " " + message);
                }
            });
            listener.sync().subscribe("java:news");
            for (RedisClusterNode node : primaries()) {
                at(node).publish("java:news", "hello");
                expect(heard.poll(60, TimeUnit.SECONDS), "java:news hello");
            }
            listener.sync().ssubscribe("{java:s}news");
            until(() -> redis.spublish("{java:s}news", "hello") == 1L);
            expect(heard.poll(60, TimeUnit.SECONDS), "shard {java:s}news hello");
        }
    }

    private void replicas() throws Exception {
        try (StatefulRedisClusterConnection<String, String> reader = client.connect()) {
            reader.setReadFrom(ReadFrom.REPLICA);
            until(() -> "1".equals(reader.sync().get("java:0")));
            expect(reader.sync().get("java:299"), "300");
        }
    }

    private void aSlotThatMoves() throws Exception {
        int slot = SlotHash.getSlot("{java:m}");
        RedisClusterNode from = ownerOf(slot);
        RedisClusterNode to = primaries().stream().filter(node -> !node.getNodeId().equals(from.getNodeId()))
                .findFirst().orElseThrow();
        RedisCommands<String, String> source = at(from);
        RedisCommands<String, String> target = at(to);
        expect(redis.mset(Map.of("{java:m}1", "1", "{java:m}2", "2")), "OK");
        try (StatefulRedisClusterConnection<String, String> waiter = client.connect()) {
            RedisFuture<KeyValue<String, String>> job = waiter.async().blpop(0, "{java:m}jobs");
            until(() -> source.clientList().contains("cmd=blpop"));
            expect(target.clusterSetSlotImporting(slot, from.getNodeId()), "OK");
            expect(source.clusterSetSlotMigrating(slot, to.getNodeId()), "OK");
            String host = to.getUri().getHost();
            int port = to.getUri().getPort();
            expect(source.migrate(host, port, "{java:m}1", 0, 10_000), "OK");
            refused("ASK " + slot + " " + host + ":" + port, () -> source.get("{java:m}1"));
            refused("TRYAGAIN", () -> source.mget("{java:m}1", "{java:m}2"));
            expect(redis.get("{java:m}1"), "1");
            expect(redis.get("{java:m}2"), "2");
            expect(redis.incr("{java:m}3"), 1L);
            expect(source.migrate(host, port, "{java:m}2", 0, 10_000), "OK");
            expect(target.clusterSetSlotNode(slot, to.getNodeId()), "OK");
            expect(source.clusterSetSlotNode(slot, to.getNodeId()), "OK");
            expect(redis.mget("{java:m}1", "{java:m}2", "{java:m}3").stream().map(KeyValue::getValue).toList(),
                    List.of("1", "2", "1"));
            expect(redis.rpush("{java:m}jobs", "sweep"), 1L);
            expect(job.get(), KeyValue.just("{java:m}jobs", "sweep"));
        }
    }

    /** A replica takes over by request, and a counter goes on without a gap. */
    private void aFailover() throws Exception {
        RedisClusterNode primary = ownerOf(SlotHash.getSlot("{java:f}"));
        RedisClusterNode replica = client.getPartitions().stream()
                .filter(node -> primary.getNodeId().equals(node.getSlaveOf())).findFirst().orElseThrow();
        AtomicLong count = new AtomicLong();
        LinkedBlockingQueue<Throwable> failed = new LinkedBlockingQueue<>();
        Thread counting = new Thread(() -> {
            try {
                while (!Thread.currentThread().isInterrupted()) {
                    expect(connection.async().incr("{java:f}count").toCompletableFuture().join(), count.get() + 1);
                    count.incrementAndGet();
                }
            } catch (Throwable thrown) {
                failed.add(thrown);
            }
        });
        counting.start();
        until(() -> count.get() > 20 || !failed.isEmpty());
        expect(at(replica).clusterFailover(false), "OK");
        AtomicLong asked = new AtomicLong(System.nanoTime());
        until(() -> {
            if (at(replica).role().get(0).equals("master")) {
                return at(primary).role().get(0).equals("slave");
            }
            // The replica gives up after 5 seconds, and a disk that stalls takes as long. If it leads by now, it refuses.
            if (System.nanoTime() - asked.get() > 5_500_000_000L) {
                asked.set(System.nanoTime());
                try {
                    at(replica).clusterFailover(false);
                } catch (RedisCommandExecutionException refused) {
                    expect(at(replica).role().get(0), "master");
                }
            }
            return false;
        });
        long before = count.get();
        until(() -> count.get() > before + 20 || !failed.isEmpty());
        counting.interrupt();
        counting.join();
        expect(List.copyOf(failed), List.of());
        expect(redis.get("{java:f}count"), "" + count.get());
    }

    public static void main(String[] arguments) throws Exception {
        RedisURI uri = RedisURI.create(arguments[0], Integer.parseInt(arguments[1]));
        for (ProtocolVersion protocol : ProtocolVersion.values()) {
            RedisClusterClient client = RedisClusterClient.create(uri);
            ClusterTopologyRefreshOptions refresh = ClusterTopologyRefreshOptions.builder()
                    .enableAllAdaptiveRefreshTriggers().build();
            client.setOptions(ClusterClientOptions.builder().protocolVersion(protocol).topologyRefreshOptions(refresh)
                    .build());
            ClusterCheck check = new ClusterCheck(client);
            // A node may not know yet which replica took over before.
            until(check::isEmptied);
            check.keysOfAllNodes();
            check.messages();
            check.replicas();
            check.aSlotThatMoves();
            check.aFailover();
            check.connection.close();
            client.shutdown();
        }
        System.out.println("Lettuce " + LettuceVersion.getVersion() + ": the scenario of a cluster in RESP2 and RESP3");
    }
}
