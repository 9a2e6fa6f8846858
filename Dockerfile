# The gateway in a container: small, as its own user, state in one volume.
#
#   docker build -t crossclaw .
#   docker run -d --name crossclaw -p 127.0.0.1:18789:18789 -v crossclaw:/state crossclaw
#   docker exec -it crossclaw crossclaw onboard
#   docker exec crossclaw crossclaw dashboard
#
# Any base with Python 3.11 or newer will do: --build-arg BASE=… names another one.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml requirements-run.lock requirements-postgres.lock README.md LICENSE ./
COPY src src
RUN python3 -m venv /opt/crossclaw \
 && /opt/crossclaw/bin/python -m pip --no-cache-dir --disable-pip-version-check install --require-hashes --no-deps -r requirements-run.lock -r requirements-postgres.lock \
 && /opt/crossclaw/bin/python -m pip --no-cache-dir --disable-pip-version-check install --no-deps --no-build-isolation . \
 && /opt/crossclaw/bin/python -m pip --disable-pip-version-check uninstall --yes hatchling editables pip

FROM ${BASE}
RUN useradd --uid 10001 --create-home --home-dir /home/crossclaw crossclaw \
 && mkdir -m 0700 /state && chown crossclaw:crossclaw /state
COPY --from=build /opt/crossclaw /opt/crossclaw
ENV PATH=/opt/crossclaw/bin:$PATH OPENCLAW_STATE_DIR=/state PYTHONUNBUFFERED=1
USER crossclaw
WORKDIR /home/crossclaw
VOLUME /state
EXPOSE 18789
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["crossclaw", "health"]
STOPSIGNAL SIGTERM
# Inside of its own network a container has to listen on all addresses; publish the port on loopback, as above.
CMD ["crossclaw", "gateway", "run", "--bind", "lan"]
