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

func collections(r *redis.Client) {
	expect(r.RPush(ctx, "go:list", 1, 2, 3).Val(), int64(3))
	expect(r.LMove(ctx, "go:list", "go:other", "LEFT", "RIGHT").Val(), "1")
	expect(r.LRange(ctx, "go:list", 0, -1).Val(), []string{"2", "3"})
	expect(r.SAdd(ctx, "go:set", "a", "b").Val(), int64(2))
	expect(r.SIsMember(ctx, "go:set", "b").Val(), true)
	expect(r.HSet(ctx, "go:hash", "name", "Ann", "age", 36).Val(), int64(2))
	expect(r.HGetAll(ctx, "go:hash").Val(), map[string]string{"name": "Ann", "age": "36"})
	expect(r.ZAdd(ctx, "go:zset", redis.Z{Score: 30, Member: "ann"}, redis.Z{Score: 20.5, Member: "bob"}).Val(), int64(2))
	expect(r.ZRangeWithScores(ctx, "go:zset", 0, 0).Val(), []redis.Z{{Score: 20.5, Member: "bob"}})
	expect(r.ZIncrBy(ctx, "go:zset", 15, "bob").Val(), 35.5)
	expect(r.PFAdd(ctx, "go:hll", "a", "b").Val(), int64(1))
	expect(r.GeoAdd(ctx, "go:geo", &redis.GeoLocation{Name: "Palermo", Longitude: 13.361389, Latitude: 38.115556}).Val(), int64(1))
	query := &redis.GeoSearchQuery{Longitude: 13, Latitude: 38, Radius: 100, RadiusUnit: "km"}
	expect(r.GeoSearch(ctx, "go:geo", query).Val(), []string{"Palermo"})
	id, err := r.XAdd(ctx, &redis.XAddArgs{Stream: "go:stream", Values: []string{"field", "value"}}).Result()
	ok(err)
	ok(r.XGroupCreate(ctx, "go:stream", "group", "0").Err())
	read, err := r.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: "group", Consumer: "ann", Streams: []string{"go:stream", ">"}, Block: time.Minute,
	}).Result()
	ok(err)
	expect(read[0].Messages[0].ID, id)
	expect(read[0].Messages[0].Values, map[string]any{"field": "value"})
	expect(r.XPending(ctx, "go:stream", "group").Val().Count, int64(1))
	expect(r.XAck(ctx, "go:stream", "group", id).Val(), int64(1))
	add := redis.NewScript("return redis.call('INCRBY', KEYS[1], ARGV[1])")
	expect(add.Run(ctx, r, []string{"go:scripted"}, 5).Val(), any(int64(5)))
	expect(add.Run(ctx, r, []string{"go:scripted"}, 5).Val(), any(int64(10)))
	listener := r.Subscribe(ctx, "go:news")
	_, err = listener.Receive(ctx)
	ok(err)
	expect(r.Publish(ctx, "go:news", "hello").Val(), int64(1))
	message, err := listener.ReceiveMessage(ctx)
	ok(err)
	expect(message.Payload, "hello")
	ok(listener.Close())
	job := make(chan []string)
	go func() { job <- r.BLPop(ctx, time.Minute, "go:jobs").Val() }()
	ok(r.RPush(ctx, "go:jobs", "sweep").Err())
	expect(<-job, []string{"go:jobs", "sweep"})
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
		collections(r)
		server(r)
		ok(r.Close())
	}
	fmt.Printf("go-redis %s: %d checks in RESP2 and RESP3\n", redis.Version(), checks)
}
