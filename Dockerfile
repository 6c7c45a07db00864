# A broker on PyPy, from the wheel.
#
#     docker build -t twisted-kafka .
#     docker run -p 9092:9092 -v kafka:/var/lib/kafka twisted-kafka
#
# Settings are variables: -e KAFKA_NUM_PARTITIONS=3. docs/operations.md says more.
FROM python:3.13 AS build
COPY . /source
RUN pip wheel --no-deps --wheel-dir /dist /source

FROM pypy:3.11-slim
COPY --from=build /dist /dist
COPY etc/pypy-constraints.txt /dist/
RUN pip install --no-cache-dir --constraint /dist/pypy-constraints.txt /dist/*.whl \
    && rm -r /dist \
    && useradd --system --uid 1000 --home-dir /var/lib/kafka --create-home kafka
USER kafka
WORKDIR /var/lib/kafka
VOLUME /var/lib/kafka
# The address that clients are sent to must be reachable: here the published port on the same machine.
ENV KAFKA_LISTENERS=PLAINTEXT://:9092 \
    KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    KAFKA_METRICS_LISTENER=:9404
EXPOSE 9092 9404
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["pypy3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:9404/metrics', timeout=4).read(1)"]
# SIGTERM stops the broker cleanly, which may take longer than Docker's ten seconds: docker stop --timeout 300.
ENTRYPOINT ["twisted-kafka", "serve", "--data-dir", "/var/lib/kafka", "--environment"]
