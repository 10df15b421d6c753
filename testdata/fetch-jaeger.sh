#!/bin/bash
# fetch-jaeger.sh DIR: Jaeger's all-in-one, without its web pages, as DIR/jaeger (3 minutes).
# "go install" refuses a module that replaces others: it is built as a dependency of a
# module of its own, with Jaeger's checksums.
set -euo pipefail
version=v1.76.0
dir=$1
[ ! -x "$dir/jaeger" ] || exit 0
mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS=-mod=mod CGO_ENABLED=0
cd "$work"
go mod init lngtest.invalid/jaeger
go get github.com/jaegertracing/jaeger@$version
cp "$(go list -m -f '{{.Dir}}' github.com/jaegertracing/jaeger)/go.sum" sums
sort -u sums go.sum -o go.sum
go build -o jaeger github.com/jaegertracing/jaeger/cmd/all-in-one
cd - >/dev/null
mv "$work/jaeger" "$dir/jaeger"
