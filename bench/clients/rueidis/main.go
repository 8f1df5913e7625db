// One workload through rueidis: rueidis HOST PORT WORKLOAD. It prints one line of JSON as the programs for Rust do
// (../README.md). A client is shared by all goroutines and pipelines what they send by itself.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/rueidis"
)

const (
	key       = "clients:key"
	value     = "a value of some length"
	counter   = "clients:counter"
	databases = 5
	pipeline  = 10_000
)

type measured struct {
	Calls   int      `json:"calls"`
	Seconds float64  `json:"seconds"`
	CPU     float64  `json:"cpu_seconds"`
	P99     *float64 `json:"p99_us"`
}

var background = context.Background()

func main() {
	if len(os.Args) != 4 {
		fail("usage: rueidis HOST PORT WORKLOAD")
	}
	clients := make([]rueidis.Client, databases)
	for database := range clients {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:  []string{os.Args[1] + ":" + os.Args[2]},
			SelectDB:     database,
			DisableCache: true,
		})
		check(err)
		defer client.Close()
		clients[database] = client
	}
	first := clients[0]
	check(first.Do(background, first.B().Set().Key(key).Value(value).Build()).Error())
	begun, cpu := time.Now(), ownCPU()
	calls, latencies := run(os.Args[3], clients)
	result := measured{Calls: calls, Seconds: time.Since(begun).Seconds(), CPU: (ownCPU() - cpu).Seconds()}
	if len(latencies) > 0 {
		slices.Sort(latencies)
		p99 := float64(latencies[len(latencies)*99/100].Nanoseconds()) / 1e3
		result.P99 = &p99
	}
	check(json.NewEncoder(os.Stdout).Encode(result))
}

func run(workload string, clients []rueidis.Client) (int, []time.Duration) {
	first := clients[0]
	if tasks, found := strings.CutPrefix(workload, "callers-"); found {
		count, err := strconv.Atoi(tasks)
		check(err)
		return callers(first, count)
	}
	switch workload {
	case "pings":
		for range 100 {
			several(first, 1_000, func(client rueidis.Client, _ int) rueidis.Completed { return client.B().Ping().Build() })
		}
		return 100_000, nil
	case "increments":
		for range 20 {
			var group sync.WaitGroup
			for _, client := range clients {
				group.Go(func() {
					several(client, 5_000/databases, func(client rueidis.Client, _ int) rueidis.Completed {
						return client.B().Incr().Key(counter).Build()
					})
				})
			}
			group.Wait()
		}
		return 100_000, nil
	case "fan-out":
		for range 50 {
			for _, reply := range several(first, pipeline, func(client rueidis.Client, _ int) rueidis.Completed {
				return client.B().Get().Key(key).Build()
			}) {
				expect(reply.ToString())
			}
		}
		return 50 * pipeline, nil
	case "mass-set":
		for from := 0; from < 1_000_000; from += pipeline {
			several(first, pipeline, func(client rueidis.Client, number int) rueidis.Completed {
				return client.B().Set().Key(fmt.Sprintf("set:%012d", from+number)).Value("0123456789abcdef").Build()
			})
		}
		return 1_000_000, nil
	}
	fail("there is no workload " + workload)
	return 0, nil
}

// Goroutines that each await one GET after the other.
func callers(client rueidis.Client, tasks int) (int, []time.Duration) {
	each := 200_000 / tasks
	if tasks == 1 {
		each = 20_000
	}
	latencies := make([]time.Duration, each*tasks)
	var group sync.WaitGroup
	for task := range tasks {
		own := latencies[task*each : (task+1)*each]
		group.Go(func() {
			for at := range own {
				begun := time.Now()
				expect(client.Do(background, client.B().Get().Key(key).Build()).ToString())
				own[at] = time.Since(begun)
			}
		})
	}
	group.Wait()
	return len(latencies), latencies
}

// Sends so many commands at once and waits for all of them.
func several(client rueidis.Client, count int, command func(rueidis.Client, int) rueidis.Completed) []rueidis.RedisResult {
	commands := make([]rueidis.Completed, count)
	for number := range commands {
		commands[number] = command(client, number)
	}
	replies := client.DoMulti(background, commands...)
	for _, reply := range replies {
		check(reply.Error())
	}
	return replies
}

func expect(found string, err error) {
	check(err)
	if found != value {
		fail("GET gave " + found)
	}
}

func ownCPU() time.Duration {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}
