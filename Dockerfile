# A broker from the wheel, on PyPy (for throughput) or CPython (starts in half a second, with 50 MB).
#
#     docker build -t twisted-kafka:pypy -t twisted-kafka .
#     docker build -t twisted-kafka:cpython --build-arg BASE=python:3.13-slim --build-arg EXTRAS=[fast] .
#     docker run -p 9092:9092 -v kafka:/var/lib/kafka twisted-kafka
#
# Settings are variables: -e KAFKA_NUM_PARTITIONS=3. docs/operations.md says more.
ARG BASE=pypy:3.11-slim

FROM python:3.13 AS build
COPY . /source
RUN pip wheel --no-deps --wheel-dir /dist /source

FROM ${BASE}
ARG EXTRAS=
COPY --from=build /dist /dist
COPY etc/pypy-constraints.txt /dist/
RUN pip install --no-cache-dir --constraint /dist/pypy-constraints.txt "$(ls /dist/*.whl)${EXTRAS}" \
    && rm -r /dist \
    && twistd --help > /dev/null \
    && useradd --system --uid 1000 --user-group --home-dir /var/lib/kafka --create-home kafka
# As a number, so that Kubernetes can check runAsNonRoot. As root, twistd has written its plug-in cache above.
USER 1000:1000
WORKDIR /var/lib/kafka
VOLUME /var/lib/kafka
# The address that clients are sent to must be reachable: here the published port on the same machine.
ENV KAFKA_LISTENERS=PLAINTEXT://:9092 \
    KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    KAFKA_METRICS_LISTENER=:9404
EXPOSE 9092 9404
# A line of the shell, as starting PyPy costs half a second of CPU. The broker answers it without making the page of metrics.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9404; printf 'GET /health HTTP/1.0\\r\\n\\r\\n' >&3; read -rt 4 answer <&3; [[ $answer == HTTP/1*200* ]]"]
# SIGTERM stops the broker cleanly, which may take longer than Docker's ten seconds: docker stop --timeout 300.
ENTRYPOINT ["twisted-kafka", "serve", "--data-dir", "/var/lib/kafka", "--environment"]
