module github.com/lineage-ebpf/lineage/api

go 1.26.0
