// The scenario of ../README.md through Lettuce, in RESP2 and in RESP3.

import io.lettuce.core.ClientOptions;
import io.lettuce.core.Consumer;
import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

public final class Check {
    private static int checks;

    private static void expect(Object found, Object wanted) {
        checks++;
        if (!Objects.equals(found, wanted)) {
            throw new AssertionError("check " + checks + ": " + found + " instead of " + wanted);
        }
    }

    private static void values(RedisCommands<String, String> redis) {
        expect(redis.set("java:text", "grün"), "OK");
        expect(redis.get("java:text"), "grün");
        expect(redis.get("java:none"), null);
        expect(redis.set("java:text", "x", SetArgs.Builder.nx()), null);
        expect(redis.setGet("java:text", "y", SetArgs.Builder.ex(100)), "grün");
        expect(redis.ttl("java:text") > 0, true);
        expect(redis.persist("java:text"), true);
        expect(redis.incrby("java:n", 42), 42L);
        expect(redis.incrbyfloat("java:n", 0.5), 42.5);
        expect(redis.mset(Map.of("java:a", "1", "java:b", "2")), "OK");
        expect(redis.mget("java:a", "java:none").get(1).hasValue(), false);
        expect(redis.setbit("java:bits", 7, 1), 0L);
        expect(redis.bitcount("java:bits"), 1L);
    }

    private static void collections(RedisCommands<String, String> redis, RedisClient client) throws Exception {
        expect(redis.rpush("java:list", "1", "2", "3"), 3L);
        expect(redis.lrange("java:list", 0, -1), List.of("1", "2", "3"));
        expect(redis.sadd("java:set", "a", "b"), 2L);
        expect(redis.smembers("java:set"), Set.of("a", "b"));
        expect(redis.hset("java:hash", Map.of("name", "Ann", "age", "36")), 2L);
        expect(redis.hgetall("java:hash"), Map.of("name", "Ann", "age", "36"));
        expect(redis.zadd("java:zset", ScoredValue.just(30, "ann"), ScoredValue.just(20.5, "bob")), 2L);
        expect(redis.zrangeWithScores("java:zset", 0, 0), List.of(ScoredValue.just(20.5, "bob")));
        expect(redis.zscore("java:zset", "ann"), 30.0);
        expect(redis.pfadd("java:hll", "a", "b"), 1L);
        String id = redis.xadd("java:stream", Map.of("field", "value"));
        expect(redis.xgroupCreate(XReadArgs.StreamOffset.from("java:stream", "0"), "group"), "OK");
        List<StreamMessage<String, String>> read = redis.xreadgroup(Consumer.from("group", "ann"),
                XReadArgs.StreamOffset.lastConsumed("java:stream"));
        expect(read.get(0).getId(), id);
        expect(read.get(0).getBody(), Map.of("field", "value"));
        expect(redis.xack("java:stream", "group", id), 1L);
        String digest = redis.scriptLoad("return redis.call('INCRBY', KEYS[1], ARGV[1])");
        String[] keys = {"java:scripted"};
        expect(redis.evalsha(digest, ScriptOutputType.INTEGER, keys, "5"), 5L);
        expect(redis.evalsha(digest, ScriptOutputType.INTEGER, keys, "5"), 10L);
        CompletableFuture<String> heard = new CompletableFuture<>();
        try (StatefulRedisPubSubConnection<String, String> listener = client.connectPubSub()) {
            listener.addListener(new RedisPubSubAdapter<>() {
                @Override
                public void message(String channel, String message) {
                    heard.complete(channel + " " + message);
                }
            });
            listener.sync().subscribe("java:news");
            expect(redis.publish("java:news", "hello"), 1L);
            expect(heard.get(60, TimeUnit.SECONDS), "java:news hello");
        }
        try (StatefulRedisConnection<String, String> waiter = client.connect()) {
            RedisFuture<KeyValue<String, String>> job = waiter.async().blpop(60, "java:jobs");
            redis.rpush("java:jobs", "sweep");
            expect(job.get(), KeyValue.just("java:jobs", "sweep"));
        }
    }

    private static void exchanges(StatefulRedisConnection<String, String> connection, RedisClient client)
            throws Exception {
        RedisCommands<String, String> redis = connection.sync();
        List<RedisFuture<Long>> together = new ArrayList<>();
        for (int n = 0; n < 1000; n++) {
            together.add(connection.async().incr("java:together"));
        }
        expect(together.get(999).get(), 1000L);
        redis.multi();
        redis.incr("java:tx");
        redis.incr("java:tx");
        TransactionResult done = redis.exec();
        expect(List.of(done.get(0), done.get(1)), List.of(1L, 2L));
        try (StatefulRedisConnection<String, String> other = client.connect()) {
            redis.watch("java:tx");
            other.sync().incr("java:tx");
            redis.multi();
            redis.incr("java:tx");
            expect(redis.exec().wasDiscarded(), true);
        }
        for (int n = 0; n < 300; n++) {
            redis.set("java:scan:" + n, "");
        }
        Set<String> seen = new HashSet<>();
        ScanIterator.scan(redis, ScanArgs.Builder.limit(50).match("java:scan:*")).forEachRemaining(seen::add);
        expect(seen.size(), 300);
    }

    private static void server(RedisCommands<String, String> redis) {
        expect(redis.ping(), "PONG");
        expect(redis.clientList().contains("name=java"), true);
        expect(redis.info().contains("redis_version:"), true);
        expect(redis.configGet("maxmemory-policy"), Map.of("maxmemory-policy", "noeviction"));
        expect(redis.command().size() > 60, true);
        try {
            redis.incr("java:text");
            expect("answered", "refused");
        } catch (RedisCommandExecutionException refused) {
            expect(refused.getMessage(), "ERR value is not an integer or out of range");
        }
        expect(redis.ping(), "PONG");
        expect(redis.flushdb(), "OK");
        expect(redis.dbsize(), 0L);
    }

    public static void main(String[] arguments) throws Exception {
        RedisURI uri = RedisURI.builder().withHost(arguments[0]).withPort(Integer.parseInt(arguments[1]))
                .withDatabase(6).withClientName("java").build();
        for (ProtocolVersion protocol : ProtocolVersion.values()) {
            RedisClient client = RedisClient.create(uri);
            client.setOptions(ClientOptions.builder().protocolVersion(protocol).build());
            try (StatefulRedisConnection<String, String> connection = client.connect()) {
                connection.sync().flushdb();
                values(connection.sync());
                collections(connection.sync(), client);
                exchanges(connection, client);
                server(connection.sync());
            }
            client.shutdown();
        }
        System.out.println("Lettuce " + LettuceVersion.getVersion() + ": " + checks + " checks in RESP2 and RESP3");
    }
}
