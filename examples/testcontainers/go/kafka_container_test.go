package shop

import (
	"context"
	"fmt"
	"net"
	"strings"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// KafkaContainer is a broker in a container, which listens on a free port of this machine.
type KafkaContainer struct {
	testcontainers.Container
	BootstrapServers string
}

// StartKafka starts a broker. Settings are by Kafka's names.
func StartKafka(ctx context.Context, image string, settings map[string]string) (*KafkaContainer, error) {
	// The broker sends its address to clients, so the port is chosen before it starts.
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return nil, err
	}
	defer provider.Close()
	host, err := provider.DaemonHost(ctx)
	if err != nil {
		return nil, err
	}
	servers := fmt.Sprintf("%s:%d", host, port)
	environment := map[string]string{"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://" + servers}
	for key, value := range settings {
		name := strings.NewReplacer("_", "__", "-", "___", ".", "_").Replace(key)
		environment["KAFKA_"+strings.ToUpper(name)] = value
	}
	container, err := testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts(fmt.Sprintf("%d:9092/tcp", port)),
		testcontainers.WithEnv(environment),
		testcontainers.WithWaitStrategy(wait.ForLog("listens on")),
	)
	if err != nil {
		return nil, err
	}
	return &KafkaContainer{Container: container, BootstrapServers: servers}, nil
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
