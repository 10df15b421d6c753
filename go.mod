module github.com/lineage-ebpf/lineage

go 1.25.0
