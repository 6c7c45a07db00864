// transactions BOOTSTRAP does what each line of its input says, a command and its arguments with tabs between, and answers with a line:
// ok and what was asked for, or failed and the error. tests/clients/transactors.py says what the commands are.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

// transactor is a transactional producer, and a member of a group if it transforms.
type transactor struct {
	client  *kgo.Client
	session *kgo.GroupTransactSession
	failed  error
}

type program struct {
	bootstrap   string
	transactors map[string]*transactor
}

func main() {
	p := &program{bootstrap: os.Args[1], transactors: map[string]*transactor{}}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		found, err := p.run(words[0], words[1:])
		if err != nil {
			fmt.Printf("failed\t%s\n", strings.Join(strings.Fields(err.Error()), " "))
			continue
		}
		fmt.Printf("ok\t%s\n", found)
	}
}

func (p *program) run(command string, words []string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch command {
	case "open":
		return "", p.open(ctx, words[0], p.producer(words[1], words[2]))
	case "join":
		return "", p.join(ctx, words)
	case "read":
		return p.read(ctx, words[0], words[1])
	}
	t := p.transactors[words[0]]
	switch command {
	case "begin":
		t.failed = nil
		return "", t.client.BeginTransaction()
	case "send":
		return "", t.send(words[1], words[2], words[3])
	case "flush":
		return "", t.flush(ctx)
	case "commit":
		if err := t.flush(ctx); err != nil {
			return "", err
		}
		return "", t.client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		if err := t.client.AbortBufferedRecords(ctx); err != nil {
			return "", err
		}
		return "", t.client.EndTransaction(ctx, kgo.TryAbort)
	case "transform":
		return t.transform(ctx, words[1], kgo.TransactionEndTry(words[2] == "commit"))
	}
	return "", fmt.Errorf("no such command: %s", command)
}

func (p *program) producer(transactionalID, timeoutMs string) []kgo.Opt {
	timeout, _ := strconv.Atoi(timeoutMs)
	return []kgo.Opt{
		kgo.SeedBrokers(p.bootstrap),
		kgo.TransactionalID(transactionalID),
		kgo.TransactionTimeout(time.Duration(timeout) * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
}

func (p *program) open(ctx context.Context, name string, options []kgo.Opt) error {
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	p.transactors[name] = &transactor{client: client}
	_, _, err = client.ProducerID(ctx) // otherwise only asked for by the first record
	return err
}

func (p *program) join(ctx context.Context, words []string) error {
	options := append(p.producer(words[1], words[2]),
		kgo.ConsumerGroup(words[3]),
		kgo.ConsumeTopics(words[4]),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(3*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
	)
	if words[5] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	p.transactors[words[0]] = &transactor{client: session.Client(), session: session}
	_, _, err = session.Client().ProducerID(ctx)
	return err
}

func (t *transactor) send(topic, partition, value string) error {
	number, err := strconv.Atoi(partition)
	if err != nil {
		return err
	}
	record := &kgo.Record{Topic: topic, Partition: int32(number), Value: []byte(value)}
	// The promises are called one after another, and before Flush returns.
	t.client.Produce(context.Background(), record, func(_ *kgo.Record, err error) { t.failed = errors.Join(t.failed, err) })
	return nil
}

func (t *transactor) flush(ctx context.Context) error {
	if err := t.client.Flush(ctx); err != nil {
		return err
	}
	return t.failed
}

// transform copies what one poll returns, to the same partitions, with the offsets; it returns how many records.
func (t *transactor) transform(ctx context.Context, target string, end kgo.TransactionEndTry) (string, error) {
	polling, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	fetches := t.session.PollRecords(polling, 10)
	if err := fetches.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return "", err
	}
	if fetches.NumRecords() == 0 {
		return "0", nil
	}
	if err := t.session.Begin(); err != nil {
		return "", err
	}
	promised := kgo.AbortingFirstErrPromise(t.client)
	fetches.EachRecord(func(record *kgo.Record) {
		copied := &kgo.Record{Topic: target, Partition: record.Partition, Value: append([]byte("t"), record.Value...)}
		t.session.Produce(ctx, copied, promised.Promise())
	})
	failed := promised.Err()
	committed, err := t.session.End(ctx, end && kgo.TransactionEndTry(failed == nil))
	if err = errors.Join(failed, err); err != nil {
		return "", err
	}
	if bool(end) && !committed {
		return "", errors.New("aborted as the group has rebalanced")
	}
	return strconv.Itoa(fetches.NumRecords()), nil
}

func (p *program) read(ctx context.Context, topic, isolation string) (string, error) {
	level := kgo.ReadUncommitted()
	if isolation == "read_committed" {
		level = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(p.bootstrap), kgo.FetchIsolationLevel(level), kgo.KeepControlRecords())
	if err != nil {
		return "", err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, topic)
	if isolation == "read_committed" {
		ends, err = admin.ListCommittedOffsets(ctx, topic)
	}
	if err != nil {
		return "", err
	}
	var values []string
	for partition := int32(0); ; partition++ {
		end, ok := ends.Lookup(topic, partition)
		if !ok {
			return strings.Join(values, ","), nil
		}
		read, err := readPartition(ctx, client, topic, partition, end.Offset)
		if err != nil {
			return "", err
		}
		values = append(values, read...)
	}
}

// readPartition returns the values of a partition up to an offset. Control records are fetched too: they may be the last ones.
func readPartition(ctx context.Context, client *kgo.Client, topic string, partition int32, end int64) ([]string, error) {
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().At(0)}})
	defer client.RemoveConsumePartitions(map[string][]int32{topic: {partition}})
	var values []string
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset >= next && record.Offset < end {
				next = record.Offset + 1
				if !record.Attrs.IsControl() {
					values = append(values, string(record.Value))
				}
			}
		})
	}
	return values, nil
}
