// A test with a broker in a container.
package shop

import (
	"context"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestAnOrderIsRead(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	kafka, err := StartKafka(ctx, "twisted-kafka", map[string]string{"num.partitions": "3"})
	if err != nil {
		t.Fatal(err)
	}
	testcontainers.CleanupContainer(t, kafka.Container)
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.BootstrapServers), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	order := &kgo.Record{Topic: "orders", Value: []byte("an order")}
	if err := client.ProduceSync(ctx, order).FirstErr(); err != nil {
		t.Fatal(err)
	}
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatal(err)
	}
	if value := string(fetches.Records()[0].Value); value != "an order" {
		t.Fatalf("the order is %q", value)
	}
}
