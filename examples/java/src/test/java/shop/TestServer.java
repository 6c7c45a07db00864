package shop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** {@code twisted-kafka test-server} (in a clone: pip install .), and its control API. It ends with this program. */
final class TestServer implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    private final HttpClient client = HttpClient.newHttpClient();
    private final Process process;
    private final JsonNode told;

    TestServer(String... options) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(System.getenv().getOrDefault("TWISTED_KAFKA", "twisted-kafka"));
        command.add("test-server");
        command.addAll(List.of(options));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        BufferedReader out = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
        String line = out.readLine();
        if (line == null) {
            throw new IOException("test-server ended at its start");
        }
        told = JSON.readTree(line);
    }

    String bootstrapServers() {
        return told.get("bootstrap_servers").asText();
    }

    JsonNode get(String path) throws IOException, InterruptedException {
        return call("GET", path, null);
    }

    JsonNode post(String path, String json) throws IOException, InterruptedException {
        return call("POST", path, json);
    }

    private JsonNode call(String method, String path, String json) throws IOException, InterruptedException {
        HttpRequest.BodyPublisher body =
            json == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(json);
        HttpRequest request = HttpRequest.newBuilder(URI.create(told.get("control_url").asText() + path))
            .header("Authorization", "Bearer " + told.get("token").asText())
            .method(method, body)
            .build();
        HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
        JsonNode answer = JSON.readTree(response.body());
        if (response.statusCode() != 200) {
            throw new IOException(answer.get("error").asText());
        }
        return answer;
    }

    @Override
    public void close() throws IOException, InterruptedException {
        process.getOutputStream().close(); // it ends with its stdin
        process.waitFor();
    }
}
