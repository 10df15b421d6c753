package otlp

import (
	"strings"
	"time"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
)

// attributes is a list that leaves out what is not known.
type attributes []*common.KeyValue

func (a attributes) add(key string, v *common.AnyValue) attributes {
	return append(a, &common.KeyValue{Key: key, Value: v})
}

func (a attributes) text(key, value string) attributes {
	if value == "" {
		return a
	}
	return a.add(key, textValue(value))
}

func (a attributes) number(key string, value int64) attributes {
	return a.add(key, &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: value}})
}

// count is a number that is left out if it is 0.
func (a attributes) count(key string, value int) attributes {
	if value == 0 {
		return a
	}
	return a.number(key, int64(value))
}

func (a attributes) truth(key string, value bool) attributes {
	if !value {
		return a
	}
	return a.add(key, &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: true}})
}

func (a attributes) time(key string, value time.Time) attributes {
	if value.IsZero() {
		return a
	}
	return a.text(key, value.UTC().Format(time.RFC3339Nano))
}

func (a attributes) list(key string, values []string) attributes {
	if len(values) == 0 {
		return a
	}
	list := &common.ArrayValue{Values: make([]*common.AnyValue, len(values))}
	for i, v := range values {
		list.Values[i] = textValue(v)
	}
	return a.add(key, &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: list}})
}

// textValue makes a value of what a process chose: protobuf takes UTF-8 only.
func textValue(s string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: valid(s)}}
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
