// verifiable BOOTSTRAP TOPIC COUNT RATE produce|consume: send the numbers from 0, so many per second, or read so many records as a member of
// the group "readers". Prints what Kafka's VerifiableProducer and VerifiableConsumer print of each record.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}

func tell(name string, record *kgo.Record) {
	format := "{\"name\":\"%s\",\"value\":\"%s\",\"partition\":%d,\"offset\":%d}\n"
	fmt.Printf(format, name, record.Value, record.Partition, record.Offset)
}

func produce(client *kgo.Client, count int, rate int) {
	sent := func(record *kgo.Record, err error) {
		if err != nil {
			fail(err)
		}
		tell("producer_send_success", record)
	}
	for number := 0; number < count; number++ {
		client.Produce(context.Background(), kgo.StringRecord(strconv.Itoa(number)), sent)
		time.Sleep(time.Second / time.Duration(rate))
	}
	if err := client.Flush(context.Background()); err != nil {
		fail(err)
	}
}

func consume(client *kgo.Client, count int) {
	type place struct {
		partition int32
		offset    int64
	}
	seen := map[place]bool{}
	for len(seen) < count {
		fetches := client.PollFetches(context.Background())
		fetches.EachRecord(func(record *kgo.Record) {
			seen[place{record.Partition, record.Offset}] = true
			tell("record_data", record)
		})
	}
}

func main() {
	topic := os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail(err)
	}
	rate, err := strconv.Atoi(os.Args[4])
	if err != nil {
		fail(err)
	}
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(os.Args[1], ",")...)}
	if os.Args[5] == "produce" {
		options = append(options, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()))
	} else {
		options = append(options, kgo.ConsumeTopics(topic), kgo.ConsumerGroup("readers"))
		options = append(options, kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fail(err)
	}
	defer client.Close()
	if os.Args[5] == "produce" {
		produce(client, count, rate)
	} else {
		consume(client, count)
	}
}
