// The scenario of ../README.md through Lettuce, in RESP2 and in RESP3.

import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanIterator;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

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
                exchanges(connection, client);
                server(connection.sync());
            }
            client.shutdown();
        }
        System.out.println("Lettuce " + LettuceVersion.getVersion() + ": " + checks + " checks in RESP2 and RESP3");
    }
}
