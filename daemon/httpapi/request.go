//go:build linux

package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lineage-ebpf/lineage/api"
	"github.com/lineage-ebpf/lineage/enforcer/policy"
)

const maxBody = 64 << 10

type bodies struct{ send time.Duration } // that a caller has

// decode reads the request's body, an object with known fields only, into
// dst. An empty body is an empty object.
func (b bodies) decode(w http.ResponseWriter, r *http.Request, dst any) error {
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Now().Add(b.send))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return api.Errorf(api.CodeTooLarge, "request larger than %d KiB", maxBody>>10)
	case err != nil:
		w.Header().Set("Connection", "close") // the rest of it may still come
		return api.NewError(api.CodeBadRequest, "the request did not arrive in time", "")
	}
	rc.SetReadDeadline(time.Time{})
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, dst); err != nil {
		return malformed(err)
	}
	strict := json.NewDecoder(bytes.NewReader(body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(dst); err != nil {
		return api.NewError(api.CodeBadRequest, strings.TrimPrefix(err.Error(), "json: "), "")
	}
	return nil
}

// malformed describes what is wrong with a body in words of its own: those of
// encoding/json are about Go.
func malformed(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	message := fmt.Sprintf("invalid body: %v", err)
	switch {
	case errors.As(err, &syntax):
		message = fmt.Sprintf("invalid body: not JSON at byte %d", syntax.Offset)
	case errors.As(err, &kind) && kind.Field == "":
		message = fmt.Sprintf("invalid body: must be an object, not a JSON %s", kind.Value)
	case errors.As(err, &kind):
		message = fmt.Sprintf("invalid %s: not for a JSON %s", kind.Field, kind.Value)
	}
	return api.NewError(api.CodeBadRequest, message, "")
}

// query returns the parameters, if none is unknown or given twice.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, api.Errorf(api.CodeBadRequest, "invalid query: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(known, name) {
			return nil, unknown("parameter", name, known)
		}
		if len(q[name]) > 1 {
			return nil, api.Errorf(api.CodeBadRequest, "parameter %q is given twice", name)
		}
	}
	return q, nil
}

func unknown(what, name string, known []string) error {
	hint := ""
	base := name[strings.LastIndexByte(name, '.')+1:]
	if s := policy.Nearest(base, known); s != "" {
		hint = fmt.Sprintf("did you mean %q?", s)
	} else if len(known) > 0 {
		hint = "known: " + strings.Join(known, ", ")
	}
	return api.NewError(api.CodeBadRequest, fmt.Sprintf("unknown %s %q", what, name), hint)
}
