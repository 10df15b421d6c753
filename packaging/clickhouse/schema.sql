-- schema.sql: the tables that the exporter of an OpenTelemetry Collector 0.150.0 writes (create_schema: false), for `lineage export`, with
-- what the queries need as columns of their own. What is delivered again is kept once. ClickHouse 25 or newer.
CREATE DATABASE IF NOT EXISTS lineage;

CREATE TABLE IF NOT EXISTS lineage.otel_traces (
    Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    ParentSpanId String CODEC(ZSTD(1)),
    TraceState String CODEC(ZSTD(1)),
    SpanName LowCardinality(String) CODEC(ZSTD(1)),
    SpanKind LowCardinality(String) CODEC(ZSTD(1)),
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion String CODEC(ZSTD(1)),
    SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    Duration UInt64 CODEC(ZSTD(1)),
    StatusCode LowCardinality(String) CODEC(ZSTD(1)),
    StatusMessage String CODEC(ZSTD(1)),
    Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
    Host LowCardinality(String) MATERIALIZED ResourceAttributes['host.name'],
    Session String MATERIALIZED SpanAttributes['lineage.session.id'],
    Agent LowCardinality(String) MATERIALIZED SpanAttributes['gen_ai.agent.name'],
    INDEX by_session Session TYPE bloom_filter GRANULARITY 1
) ENGINE = ReplacingMergeTree
PARTITION BY toDate(Timestamp)
ORDER BY (Host, SpanName, Timestamp, TraceId, SpanId)
TTL toDateTime(Timestamp) + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS lineage.otel_logs (
    Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)),
    TimestampTime DateTime DEFAULT toDateTime(Timestamp),
    TraceId String CODEC(ZSTD(1)),
    SpanId String CODEC(ZSTD(1)),
    TraceFlags UInt8,
    SeverityText LowCardinality(String) CODEC(ZSTD(1)),
    SeverityNumber UInt8,
    ServiceName LowCardinality(String) CODEC(ZSTD(1)),
    Body String CODEC(ZSTD(1)),
    ResourceSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
    ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    ScopeSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
    ScopeName String CODEC(ZSTD(1)),
    ScopeVersion LowCardinality(String) CODEC(ZSTD(1)),
    ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    LogAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
    EventName String CODEC(ZSTD(1)),
    Host LowCardinality(String) MATERIALIZED ResourceAttributes['host.name'],
    Code LowCardinality(String) MATERIALIZED JSONExtractString(LogAttributes['ocsf.raw'], 'metadata', 'event_code'),
    Uid String MATERIALIZED JSONExtractString(LogAttributes['ocsf.raw'], 'metadata', 'uid'),
    Session String MATERIALIZED JSONExtractString(LogAttributes['ocsf.raw'], 'unmapped', 'lineage', 'session', 'id'),
    Agent LowCardinality(String) MATERIALIZED JSONExtractString(LogAttributes['ocsf.raw'], 'unmapped', 'lineage', 'session', 'rule'),
    EndId String MATERIALIZED JSONExtractString(LogAttributes['ocsf.raw'], 'command_uid'),
    INDEX by_session Session TYPE bloom_filter GRANULARITY 1,
    INDEX by_end EndId TYPE bloom_filter GRANULARITY 1
) ENGINE = ReplacingMergeTree
PARTITION BY toDate(TimestampTime)
ORDER BY (Host, Code, Timestamp, Uid)
TTL TimestampTime + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1;

-- A row for each process that has exited, and for each program that it had replaced by an exec.
CREATE OR REPLACE VIEW lineage.programs AS SELECT
    Host, Session, Agent, SpanName AS Program,
    SpanAttributes['lineage.session.name'] AS Name,
    toUInt32OrZero(SpanAttributes['process.pid']) AS Pid,
    toUInt64OrZero(SpanAttributes['lineage.process.start_ns']) AS StartNs,
    toUInt32OrZero(SpanAttributes['lineage.process.creator.pid']) AS Creator,
    toUInt32OrZero(SpanAttributes['process.user.id']) AS User,
    SpanAttributes['process.executable.path'] AS Path,
    SpanAttributes['process.command_args'] AS Args,
    SpanAttributes['lineage.evidence'] AS Evidence,
    Timestamp AS Began,
    addNanoseconds(Timestamp, Duration) AS Ended,
    SpanAttributes['process.exit.code'] AS ExitCode,
    StatusMessage AS Error
FROM lineage.otel_traces FINAL
WHERE NOT startsWith(SpanName, 'lineage.');

-- A row for each session that has ended.
CREATE OR REPLACE VIEW lineage.sessions AS SELECT
    Host, Session, Agent,
    SpanAttributes['lineage.session.name'] AS Name,
    toUInt32OrZero(SpanAttributes['process.user.id']) AS User,
    Timestamp AS Began,
    addNanoseconds(Timestamp, Duration) AS Ended,
    SpanAttributes['lineage.session.end_reason'] AS Reason,
    SpanAttributes['lineage.session.verdict'] AS Verdict,
    toUInt32OrZero(SpanAttributes['lineage.session.started']) AS Started,
    toUInt32OrZero(SpanAttributes['lineage.session.killed']) AS Killed,
    toUInt32OrZero(SpanAttributes['lineage.session.left']) AS Left,
    StatusMessage AS Error
FROM lineage.otel_traces FINAL
WHERE SpanName = 'lineage.session';

-- A row for each TCP port that a process had open.
CREATE OR REPLACE VIEW lineage.ports AS SELECT
    Host, Session, Agent,
    SpanAttributes['lineage.session.name'] AS Name,
    toUInt32OrZero(SpanAttributes['process.pid']) AS Pid,
    SpanAttributes['lineage.process.start_ns'] AS StartNs,
    SpanAttributes['process.executable.name'] AS Program,
    SpanAttributes['process.command_args'] AS Args,
    SpanAttributes['server.address'] AS Address,
    toUInt16OrZero(SpanAttributes['server.port']) AS Port,
    minIf(Timestamp, SpanName = 'lineage.listen') AS Since,
    if(countIf(SpanName = 'lineage.unlisten') = 0, now64(9), maxIf(Timestamp, SpanName = 'lineage.unlisten')) AS Until
FROM lineage.otel_traces FINAL
WHERE SpanName IN ('lineage.listen', 'lineage.unlisten')
GROUP BY Host, Session, Agent, Name, Pid, StartNs, Program, Args, Address, Port;

-- A row for each OCSF event (docs/SIEM.md).
CREATE OR REPLACE VIEW lineage.events AS SELECT
    Host, Code, Session, Agent, EndId, Timestamp AS Time, SeverityText AS Severity, Body AS Message, LogAttributes['ocsf.raw'] AS Json
FROM lineage.otel_logs FINAL;
