// verifiable_sarama BOOTSTRAP TOPIC COUNT RATE produce|consume: send the numbers from 0, so many per second, or read so many records as a
// member of the group "readers". Prints what Kafka's VerifiableProducer and VerifiableConsumer print of each record.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const retries = 1 << 20

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}

func tell(name string, value []byte, partition int32, offset int64) {
	fmt.Printf("{\"name\":\"%s\",\"value\":\"%s\",\"partition\":%d,\"offset\":%d}\n", name, value, partition, offset)
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Metadata.Retry.Max = retries
	return config
}

func produce(bootstrap []string, topic string, count int, rate int) {
	config := settings()
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Max = retries
	config.Producer.Return.Successes = true
	producer, err := sarama.NewAsyncProducer(bootstrap, config)
	if err != nil {
		fail(err)
	}
	var told sync.WaitGroup
	told.Add(1)
	go func() {
		defer told.Done()
		for number := 0; number < count; number++ {
			select {
			case sent := <-producer.Successes():
				value, _ := sent.Value.Encode()
				tell("producer_send_success", value, sent.Partition, sent.Offset)
			case failed := <-producer.Errors():
				fail(failed)
			}
		}
	}()
	for number := 0; number < count; number++ {
		producer.Input() <- &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(strconv.Itoa(number))}
		time.Sleep(time.Second / time.Duration(rate))
	}
	told.Wait()
	if err := producer.Close(); err != nil {
		fail(err)
	}
}

type reader struct {
	lock  sync.Mutex
	seen  map[string]bool
	count int
	done  context.CancelFunc
}

func (*reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (all *reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		tell("record_data", message.Value, message.Partition, message.Offset)
		session.MarkMessage(message, "")
		all.lock.Lock()
		all.seen[fmt.Sprint(message.Partition, " ", message.Offset)] = true
		isWhole := len(all.seen) >= all.count
		all.lock.Unlock()
		if isWhole {
			all.done()
		}
	}
	return nil
}

func consume(bootstrap []string, topic string, count int) {
	config := settings()
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	group, err := sarama.NewConsumerGroup(bootstrap, "readers", config)
	if err != nil {
		fail(err)
	}
	defer group.Close()
	running, done := context.WithCancel(context.Background())
	all := &reader{seen: map[string]bool{}, count: count, done: done}
	for running.Err() == nil {
		if err := group.Consume(running, []string{topic}, all); err != nil {
			time.Sleep(100 * time.Millisecond) // the coordinator has gone
		}
	}
}

func main() {
	bootstrap, topic := strings.Split(os.Args[1], ","), os.Args[2]
	count, err := strconv.Atoi(os.Args[3])
	if err != nil {
		fail(err)
	}
	rate, err := strconv.Atoi(os.Args[4])
	if err != nil {
		fail(err)
	}
	if os.Args[5] == "produce" {
		produce(bootstrap, topic, count, rate)
	} else {
		consume(bootstrap, topic, count)
	}
}
