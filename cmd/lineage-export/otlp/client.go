// Package otlp sends records by OTLP/HTTP: spans and logs.
//
// The messages are OpenTelemetry's own (proto/slim), the request is net/http's: the
// exporters of the SDK bring gRPC along, and do not say which status a receiver gave, which
// decides whether records are sent again.
package otlp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"google.golang.org/protobuf/proto"
)

// The bounds of a reply, as OpenTelemetry advises, and of what is logged of it.
const (
	maxReply = 4 << 20
	maxWhy   = 1 << 10
)

// Client posts to one receiver.
type Client struct {
	Base   string // URL, without the path of the signal
	Header http.Header
	HTTP   *http.Client
}

// refusal is a reply that rejects the data itself.
type refusal struct{ error }

// post sends a message to the path of its signal, and reads the reply.
func (c *Client) post(ctx context.Context, signal string, request, reply proto.Message) error {
	body, err := proto.Marshal(request)
	if err != nil {
		return refusal{fmt.Errorf("encode %s: %w", signal, err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		strings.TrimSuffix(c.Base, "/")+"/v1/"+signal, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	if c.Header != nil {
		req.Header = c.Header.Clone()
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return err // it names method and URL
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if resp.StatusCode/100 != 2 {
		return answered(resp, signal)
	}
	if err != nil {
		return fmt.Errorf("read reply: %w", err)
	}
	if err := proto.Unmarshal(answer, reply); err != nil {
		return fmt.Errorf("%s: not an OTLP receiver: %w", req.URL, err)
	}
	return nil
}

// answered is the error for a reply that is not a success.
func answered(resp *http.Response, signal string) error {
	err := fmt.Errorf("%s: %s", resp.Request.URL, resp.Status)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return refusal{err}
	case http.StatusNotFound:
		return fmt.Errorf("%w: is this the base URL of an OTLP/HTTP receiver that takes %s?", err, signal)
	}
	return err
}
