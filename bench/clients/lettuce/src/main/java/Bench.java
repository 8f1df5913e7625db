import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.IntFunction;

/**
 * One workload through Lettuce: Bench HOST PORT WORKLOAD. It prints one line of JSON as the programs for Rust do
 * (../README.md). One connection for each database is shared by all callers, who are chains of futures; where many commands
 * go at once, flushing is by hand.
 */
final class Bench {
    private static final String KEY = "clients:key";
    private static final String VALUE = "a value of some length";
    private static final String COUNTER = "clients:counter";
    private static final int DATABASES = 5;
    private static final int PIPELINE = 10_000;

    private final List<StatefulRedisConnection<String, String>> connections = new ArrayList<>();

    private record Outcome(int calls, long[] latencies) {}

    public static void main(String[] words) {
        if (words.length != 3) {
            throw new IllegalArgumentException("usage: Bench HOST PORT WORKLOAD");
        }
        RedisClient client = RedisClient.create("redis://" + words[0] + ":" + words[1]);
        Bench bench = new Bench();
        for (int database = 0; database < DATABASES; database++) {
            StatefulRedisConnection<String, String> connection = client.connect();
            connection.sync().select(database);
            bench.connections.add(connection);
        }
        bench.connections.get(0).sync().set(KEY, VALUE);
        // What is compiled while it runs is compiled before.
        bench.run(words[2]);
        var process = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long begun = System.nanoTime();
        long cpu = process.getProcessCpuTime();
        Outcome outcome = bench.run(words[2]);
        double seconds = (System.nanoTime() - begun) / 1e9;
        double used = (process.getProcessCpuTime() - cpu) / 1e9;
        long[] latencies = outcome.latencies();
        Arrays.sort(latencies);
        String p99 = latencies.length == 0 ? "null" : String.valueOf(latencies[latencies.length * 99 / 100] / 1e3);
        System.out.printf(
                "{\"calls\":%d,\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"p99_us\":%s}%n", outcome.calls(), seconds, used, p99);
        client.shutdown(Duration.ZERO, Duration.ofSeconds(2));
    }

    private Outcome run(String workload) {
        if (workload.startsWith("callers-")) {
            return callers(Integer.parseInt(workload.substring("callers-".length())));
        }
        StatefulRedisConnection<String, String> first = connections.get(0);
        RedisAsyncCommands<String, String> commands = first.async();
        switch (workload) {
            case "pings":
                for (int round = 0; round < 100; round++) {
                    await(together(first, 1_000, number -> commands.ping()));
                }
                return new Outcome(100_000, new long[0]);
            case "increments":
                for (int round = 0; round < 20; round++) {
                    List<RedisFuture<?>> flying = new ArrayList<>();
                    for (StatefulRedisConnection<String, String> each : connections) {
                        flying.addAll(together(each, 5_000 / DATABASES, number -> each.async().incr(COUNTER)));
                    }
                    await(flying);
                }
                return new Outcome(100_000, new long[0]);
            case "fan-out":
                for (int round = 0; round < 50; round++) {
                    for (RedisFuture<?> reply : await(together(first, PIPELINE, number -> commands.get(KEY)))) {
                        check((String) reply.toCompletableFuture().join());
                    }
                }
                return new Outcome(50 * PIPELINE, new long[0]);
            case "mass-set":
                for (int from = 0; from < 1_000_000; from += PIPELINE) {
                    int start = from;
                    await(together(first, PIPELINE,
                            number -> commands.set(String.format("set:%012d", start + number), "0123456789abcdef")));
                }
                return new Outcome(1_000_000, new long[0]);
            default:
                throw new IllegalArgumentException("there is no workload " + workload);
        }
    }

    /** Chains that each make one GET when the one before has been answered. */
    private Outcome callers(int tasks) {
        int each = tasks == 1 ? 20_000 : 200_000 / tasks;
        long[] latencies = new long[each * tasks];
        RedisAsyncCommands<String, String> commands = connections.get(0).async();
        List<CompletableFuture<Void>> chains = new ArrayList<>();
        for (int task = 0; task < tasks; task++) {
            CompletableFuture<Void> done = new CompletableFuture<>();
            chains.add(done);
            next(commands, latencies, task * each, (task + 1) * each, done);
        }
        CompletableFuture.allOf(chains.toArray(new CompletableFuture[0])).join();
        return new Outcome(latencies.length, latencies);
    }

    private static void next(
            RedisAsyncCommands<String, String> commands, long[] latencies, int at, int end, CompletableFuture<Void> done) {
        if (at == end) {
            done.complete(null);
            return;
        }
        long begun = System.nanoTime();
        CompletionStage<String> reply = commands.get(KEY);
        reply.whenComplete((value, failure) -> {
            if (failure != null || !VALUE.equals(value)) {
                done.completeExceptionally(new IllegalStateException("GET gave " + value, failure));
                return;
            }
            latencies[at] = System.nanoTime() - begun;
            next(commands, latencies, at + 1, end, done);
        });
    }

    private static List<RedisFuture<?>> together(
            StatefulRedisConnection<String, String> connection, int count, IntFunction<RedisFuture<?>> call) {
        connection.setAutoFlushCommands(false);
        List<RedisFuture<?>> flying = new ArrayList<>(count);
        for (int number = 0; number < count; number++) {
            flying.add(call.apply(number));
        }
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        return flying;
    }

    private static List<RedisFuture<?>> await(List<RedisFuture<?>> flying) {
        if (!LettuceFutures.awaitAll(Duration.ofMinutes(1), flying.toArray(new RedisFuture<?>[0]))) {
            throw new IllegalStateException("no reply within a minute");
        }
        return flying;
    }

    private static void check(String value) {
        if (!VALUE.equals(value)) {
            throw new IllegalStateException("GET gave " + value);
        }
    }
}
