//go:build linux

package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/internal/require"
)

// read reads an answer into a document of package api, which docs/openapi.json is made from. A field that it does not have fails
// the test.
func read[T any](i *Instance, what string, text []byte) *T {
	i.T.Helper()
	doc, d := new(T), json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(doc); err != nil {
		i.T.Fatalf("%s: %v\n%s", what, err, text)
	}
	return doc
}

// Report is the receipt that run or init wrote into a file.
func Report(t *testing.T, file string) (r api.Report) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	require.NoError(t, err)
	return r
}

// get fetches a document from the daemon.
func get[T any](i *Instance, path string) (*T, error) {
	i.T.Helper()
	client := i.Client()
	client.Timeout = 2 * Patience
	answer, err := client.Get("http://lineage" + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusBadRequest {
		return nil, fmt.Errorf("GET %s: %s: %s", path, answer.Status, text)
	}
	return read[T](i, "GET "+path, text), nil
}

// must is get of a document that there is.
func must[T any](i *Instance, path string) *T {
	i.T.Helper()
	doc, err := get[T](i, path)
	require.NoError(i.T, err)
	return doc
}

func (i *Instance) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", i.Socket)
}

// Client speaks HTTP with the instance's daemon.
func (i *Instance) Client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: i.dial, DisableKeepAlives: true}}
}
