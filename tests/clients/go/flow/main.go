// flow BOOTSTRAP TOPIC CLIENT produce|consume: send records of 10,000 bytes, or read all records, until killed. Each throttle time that the
// broker tells is a line, "throttled" and milliseconds.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type throttled struct{}

func (throttled) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, afterResponse bool) {
	if !afterResponse {
		fail(fmt.Errorf("the broker was muted before it answered"))
	}
	fmt.Printf("throttled\t%d\n", interval.Milliseconds())
}

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}

func produce(client *kgo.Client, topic string) {
	value := make([]byte, 10_000)
	sent := func(_ *kgo.Record, err error) {
		if err != nil {
			fail(err)
		}
	}
	for {
		client.Produce(context.Background(), &kgo.Record{Topic: topic, Value: value}, sent)
	}
}

func consume(client *kgo.Client) {
	for {
		if err := client.PollFetches(context.Background()).Err(); err != nil {
			fail(err)
		}
	}
}

func main() {
	options := []kgo.Opt{kgo.SeedBrokers(os.Args[1]), kgo.ClientID(os.Args[3]), kgo.WithHooks(throttled{})}
	if os.Args[4] == "produce" {
		options = append(options, kgo.MaxBufferedRecords(400), kgo.ProducerBatchCompression(kgo.NoCompression()))
	} else {
		options = append(options, kgo.ConsumeTopics(os.Args[2]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		fail(err)
	}
	if os.Args[4] == "produce" {
		produce(client, os.Args[2])
	}
	consume(client)
}
