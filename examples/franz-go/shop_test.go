// go test ./...
package shop

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type object map[string]any

type fault struct{ ID, Fired int }

type requests struct{ Requests []struct{ Outcome string } }

type records struct{ Records []struct{ Value string } }

func client(t *testing.T, s *testServer, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options, kgo.SeedBrokers(s.brokers()...), kgo.ClientID("shop"))
	c, err := kgo.NewClient(options...)
	check(t, err)
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAnOrderIsStoredOnceThoughItsAnswerIsLost(t *testing.T) {
	s := startTestServer(t)
	call[any](t, s, "POST", "/topics", object{"name": "orders"})
	added := call[fault](t, s, "POST", "/faults", object{"api": "Produce", "close": "after", "times": 1})
	c := client(t, s)
	check(t, c.ProduceSync(within(t), &kgo.Record{Topic: "orders", Value: []byte("one book")}).FirstErr())
	if found := call[fault](t, s, "GET", fmt.Sprintf("/faults/%d", added.ID), nil); found.Fired != 1 {
		t.Fatalf("the fault %d fired %d times", added.ID, found.Fired)
	}
	asked := call[requests](t, s, "GET", "/requests?api=Produce&topic=orders&field.acks=-1", nil)
	outcomes := []string{}
	for _, each := range asked.Requests {
		outcomes = append(outcomes, each.Outcome)
	}
	if !slices.Equal(outcomes, []string{"closed", "answered"}) {
		t.Fatalf("the produces were %v", outcomes)
	}
	if stored := call[records](t, s, "GET", "/topics/orders/records", nil).Records; len(stored) != 1 || stored[0].Value != "one book" {
		t.Fatalf("stored: %v", stored)
	}
}

func TestTheBillingReadsAllOrdersThoughAFetchFails(t *testing.T) {
	s := startTestServer(t)
	call[any](t, s, "POST", "/topics", object{"name": "orders"})
	call[any](t, s, "POST", "/topics/orders/records", object{"records": []string{"1", "2", "3"}})
	call[any](t, s, "POST", "/faults", object{"api": "Fetch", "topic": "orders", "times": 2, "error": "NOT_LEADER_OR_FOLLOWER"})
	c := client(t, s, kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	billed := []string{}
	for len(billed) < 3 {
		fetches := c.PollFetches(within(t))
		check(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { billed = append(billed, string(r.Value)) })
	}
	if !slices.Equal(billed, []string{"1", "2", "3"}) {
		t.Fatalf("billed: %v", billed)
	}
	check(t, c.CommitUncommittedOffsets(within(t)))
	call[any](t, s, "POST", "/waits", object{"group": "billing", "lag": 0, "timeout_s": 5})
}
