#!/bin/bash
# fetch-collector.sh DIR: an OpenTelemetry Collector of its Go modules, as DIR/collector
# (5 minutes). It receives OTLP, and batches, prints, passes on, or writes to ClickHouse.
set -euo pipefail
version=0.150.0
dir=$1
! "$dir/collector" components 2>/dev/null | grep -q clickhouse || exit 0
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS='' CGO_ENABLED=0
GOBIN=$work go install go.opentelemetry.io/collector/cmd/builder@v$version
cat > "$work/builder.yaml" <<END
dist: {name: collector, output_path: $work/build}
receivers: [{gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v$version}]
processors: [{gomod: go.opentelemetry.io/collector/processor/batchprocessor v$version}]
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter v$version
  - gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter v$version
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/clickhouseexporter v$version
providers:
  - gomod: go.opentelemetry.io/collector/confmap/provider/envprovider v1.56.0
  - gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.56.0
END
"$work/builder" --config "$work/builder.yaml"
mv "$work/build/collector" "$dir/collector"
