// The scenario of ../README.md through go-redis, in RESP2 and in RESP3.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	checks int
)

func expect(found, wanted any) {
	checks++
	if !reflect.DeepEqual(found, wanted) {
		fmt.Fprintf(os.Stderr, "check %d: %#v instead of %#v\n", checks, found, wanted)
		os.Exit(1)
	}
}

func ok(err error) { expect(err, error(nil)) }

func values(r *redis.Client) {
	ok(r.Set(ctx, "go:text", "grün", 0).Err())
	expect(r.Get(ctx, "go:text").Val(), "grün")
	expect(r.Get(ctx, "go:none").Err(), error(redis.Nil))
	all := bytes.Repeat([]byte{0, 13, 10, 255}, 1000)
	ok(r.Set(ctx, "go:bytes", all, time.Minute).Err())
	found, err := r.Get(ctx, "go:bytes").Bytes()
	ok(err)
	expect(bytes.Equal(found, all), true)
	expect(r.SetNX(ctx, "go:text", "x", 0).Val(), false)
	expect(r.PTTL(ctx, "go:bytes").Val() > 0, true)
	expect(r.Persist(ctx, "go:bytes").Val(), true)
	expect(r.IncrBy(ctx, "go:n", 42).Val(), int64(42))
	expect(r.IncrByFloat(ctx, "go:n", 0.5).Val(), 42.5)
	ok(r.MSet(ctx, "go:a", 1, "go:b", 2).Err())
	expect(r.MGet(ctx, "go:a", "go:none", "go:b").Val(), []any{"1", nil, "2"})
	expect(r.BitField(ctx, "go:bits", "SET", "u8", 0, 255, "GET", "u8", 0).Val(), []int64{0, 255})
	expect(r.Copy(ctx, "go:a", "go:c", 5, false).Val(), int64(1))
	expect(r.ObjectEncoding(ctx, "go:a").Val(), "int")
}

func exchanges(r *redis.Client) {
	replies, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := range 1000 {
			pipe.Set(ctx, fmt.Sprintf("go:pipe:%d", n), n, 0)
		}
		return nil
	})
	ok(err)
	expect(len(replies), 1000)
	names, cursor := map[string]bool{}, uint64(0)
	for {
		page, next, err := r.Scan(ctx, cursor, "go:pipe:*", 50).Result()
		ok(err)
		for _, name := range page {
			names[name] = true
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	expect(len(names), 1000)
	_, err = r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "go:tx")
		pipe.Incr(ctx, "go:tx")
		return nil
	})
	ok(err)
	err = r.Watch(ctx, func(tx *redis.Tx) error {
		ok(r.Incr(ctx, "go:tx").Err())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Incr(ctx, "go:tx")
			return nil
		})
		return err
	}, "go:tx")
	expect(errors.Is(err, redis.TxFailedErr), true)
	expect(r.Get(ctx, "go:tx").Val(), "3")
	var group sync.WaitGroup
	for range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			for range 100 {
				r.Incr(ctx, "go:together")
			}
		}()
	}
	group.Wait()
	expect(r.Get(ctx, "go:together").Val(), "1600")
}

func server(r *redis.Client) {
	expect(r.Ping(ctx).Val(), "PONG")
	expect(r.Echo(ctx, "hi").Val(), "hi")
	expect(strings.Contains(r.ClientList(ctx).Val(), "name=go"), true)
	expect(strings.Contains(r.Info(ctx).Val(), "redis_version:"), true)
	expect(r.ConfigGet(ctx, "maxmemory-policy").Val(), map[string]string{"maxmemory-policy": "noeviction"})
	commands, err := r.Command(ctx).Result()
	ok(err)
	expect(commands["get"] != nil && commands["get"].ReadOnly, true)
	err = r.Do(ctx, "NOSUCH", "x").Err()
	expect(err != nil && strings.Contains(err.Error(), "unknown command"), true)
	expect(r.Ping(ctx).Val(), "PONG")
	ok(r.FlushDB(ctx).Err())
	expect(r.DBSize(ctx).Val(), int64(0))
}

func main() {
	for _, protocol := range []int{2, 3} {
		r := redis.NewClient(&redis.Options{
			Addr: os.Args[1] + ":" + os.Args[2], DB: 5, ClientName: "go", Protocol: protocol,
		})
		ok(r.FlushDB(ctx).Err())
		values(r)
		exchanges(r)
		server(r)
		ok(r.Close())
	}
	fmt.Printf("go-redis %s: %d checks in RESP2 and RESP3\n", redis.Version(), checks)
}
