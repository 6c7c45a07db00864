package shop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// testServer is `twisted-kafka test-server` (in a clone: pip install .), which ends with the test.
type testServer struct {
	Brokers    string `json:"bootstrap_servers"`
	ControlURL string `json:"control_url"`
	Token      string `json:"token"`
}

func startTestServer(t *testing.T, options ...string) *testServer {
	t.Helper()
	name := os.Getenv("TWISTED_KAFKA")
	if name == "" {
		name = "twisted-kafka"
	}
	command := exec.Command(name, append([]string{"test-server"}, options...)...)
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	check(t, err)
	stdout, err := command.StdoutPipe()
	check(t, err)
	check(t, command.Start())
	t.Cleanup(func() {
		stdin.Close() // it ends with its stdin
		command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	check(t, err)
	server := &testServer{}
	check(t, json.Unmarshal(line, server))
	return server
}

func (s *testServer) brokers() []string { return strings.Split(s.Brokers, ",") }

// call sends JSON to the control API, and decodes its answer.
func call[T any](t *testing.T, s *testServer, method, path string, body any) T {
	t.Helper()
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		check(t, err)
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequest(method, s.ControlURL+path, sent)
	check(t, err)
	request.Header.Set("Authorization", "Bearer "+s.Token)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", method, path, answer)
	}
	var decoded T
	check(t, json.Unmarshal(answer, &decoded))
	return decoded
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
