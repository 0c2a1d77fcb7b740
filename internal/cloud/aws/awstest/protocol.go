// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"
)

// maxBody bounds a request.
const maxBody = 8 << 20

// protocol is how a service has its calls on the wire.
type protocol int

const (
	ec2Query protocol = iota // form in, XML out; lists are flat
	awsQuery                 // form in, XML out; lists have members
	awsJSON10
	awsJSON11
	restJSON
)

// apiError is an answer that says what was wrong, by the service's own code.
type apiError struct {
	Code    string
	Message string
	Status  int // 0: 400
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

func refuse(code, format string, args ...any) error {
	return &apiError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// none is the answer of a call that answers nothing.
type none struct{}

// serviceOf finds the service that a request is signed for: Credential=KEY/DATE/REGION/SERVICE/aws4_request.
func serviceOf(r *http.Request) string {
	_, scope, ok := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	if !ok {
		return ""
	}
	scope, _, _ = strings.Cut(scope, ",")
	parts := strings.Split(strings.TrimSpace(scope), "/")
	if len(parts) != 5 {
		return ""
	}
	return parts[3]
}

// read finds the call and decodes its input, a pointer to the operation's input struct.
func (s *service) read(r *http.Request) (action string, op *operation, in any, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return "", nil, nil, refuse("RequestEntityTooLarge", "read request: %s", err)
	}
	switch s.protocol {
	case ec2Query, awsQuery:
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return "", nil, nil, refuse("MalformedQueryString", "%s", err)
		}
		action = form.Get("Action")
		if op = s.operations[action]; op == nil {
			return action, nil, nil, refuse("InvalidAction", "The action %s is not valid for this web service.", action)
		}
		if v := form.Get("Version"); v != s.version {
			return action, op, nil, refuse("NoSuchVersion", "The requested version (%s) is not valid.", v)
		}
		form.Del("Action")
		form.Del("Version")
		in, err = decodeForm(form, op.in)
		return action, op, in, err
	case awsJSON10, awsJSON11:
		prefix, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		action = name
		if op = s.operations[action]; op == nil || prefix != s.target {
			return action, nil, nil, refuse("UnknownOperationException", "%s", r.Header.Get("X-Amz-Target"))
		}
		in, err = decodeJSON(body, op.in)
		return action, op, in, err
	}
	for name, o := range s.operations {
		if values, ok := matchPath(o.path, r.URL.Path); ok && r.Method == o.method {
			if in, err = decodeJSON(body, o.in); err != nil {
				return name, o, nil, err
			}
			v := reflect.ValueOf(in).Elem()
			for i := range v.NumField() {
				if key := v.Type().Field(i).Tag.Get("uri"); key != "" {
					v.Field(i).SetString(values[key])
				}
				if key := v.Type().Field(i).Tag.Get("query"); key != "" {
					v.Field(i).SetString(r.URL.Query().Get(key))
				}
			}
			return name, o, in, nil
		}
	}
	return "", nil, nil, &apiError{Code: "UnrecognizedClientException", Message: r.Method + " " + r.URL.Path, Status: http.StatusNotFound}
}

// matchPath matches /clusters/{name} and the like.
func matchPath(pattern, path string) (map[string]string, bool) {
	want, have := strings.Split(pattern, "/"), strings.Split(strings.TrimSuffix(path, "/"), "/")
	if len(want) != len(have) {
		return nil, false
	}
	values := map[string]string{}
	for i, w := range want {
		if strings.HasPrefix(w, "{") {
			values[strings.Trim(w, "{}")] = have[i]
		} else if w != have[i] {
			return nil, false
		}
	}
	return values, true
}

func decodeJSON(body []byte, in reflect.Type) (any, error) {
	v := reflect.New(in).Interface()
	if len(bytes.TrimSpace(body)) == 0 {
		return v, nil
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return nil, refuse("SerializationException", "%s", err)
	}
	return v, nil
}

// param is a form as the tree that its keys spell: Filter.1.Value.2.
type param struct {
	value string
	set   bool
	under map[string]*param
}

func decodeForm(form url.Values, in reflect.Type) (any, error) {
	root := &param{under: map[string]*param{}}
	for key, values := range form {
		at := root
		for _, part := range strings.Split(key, ".") {
			next := at.under[part]
			if next == nil {
				next = &param{under: map[string]*param{}}
				at.under[part] = next
			}
			at = next
		}
		at.value, at.set = values[0], true
	}
	v := reflect.New(in)
	return v.Interface(), decodeParam(root, v.Elem(), "")
}

// decodeParam fills v from a parameter, and refuses what it has no place for.
func decodeParam(p *param, v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeParam(p, v.Elem(), path)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			t, err := time.Parse(time.RFC3339, p.value)
			if err != nil {
				return refuse("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It must be an ISO 8601 date", p.value, path)
			}
			v.Set(reflect.ValueOf(t))
			return nil
		}
		known := map[string]bool{}
		for i := range v.NumField() {
			// Shape.member is the wire's name of a list of the query protocol; in EC2 lists are flat.
			name, member, isList := strings.Cut(v.Type().Field(i).Tag.Get("in"), ".")
			known[name] = true
			q := p.under[name]
			if q != nil && isList && !q.set {
				if q = q.under[member]; q == nil {
					return refuse("MalformedQueryString", "%s: need %s.%s.N", join(path, name), join(path, name), member)
				}
			}
			if q != nil {
				if err := decodeParam(q, v.Field(i), join(path, name)); err != nil {
					return err
				}
			}
		}
		for name := range p.under {
			if !known[name] {
				return refuse("UnknownParameter", "The parameter %s is not recognized", join(path, name))
			}
		}
		return nil
	case reflect.Slice:
		if p.set { // an empty list of the query protocol
			return nil
		}
		index := make([]int, 0, len(p.under))
		for k := range p.under {
			n, err := strconv.Atoi(k)
			if err != nil || n < 1 {
				return refuse("UnknownParameter", "The parameter %s is not recognized", join(path, k))
			}
			index = append(index, n)
		}
		sort.Ints(index)
		list := reflect.MakeSlice(v.Type(), len(index), len(index))
		for i, n := range index {
			if err := decodeParam(p.under[strconv.Itoa(n)], list.Index(i), join(path, strconv.Itoa(n))); err != nil {
				return err
			}
		}
		v.Set(list)
		return nil
	}
	if len(p.under) > 0 || !p.set {
		return refuse("UnknownParameter", "The parameter %s has the wrong form", path)
	}
	bad := func() error {
		return refuse("InvalidParameterValue", "Value (%s) for parameter %s is invalid", p.value, path)
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(p.value)
	case reflect.Bool:
		b, err := strconv.ParseBool(p.value)
		if err != nil {
			return bad()
		}
		v.SetBool(b)
	case reflect.Int64:
		n, err := strconv.ParseInt(p.value, 10, 64)
		if err != nil {
			return bad()
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(p.value, 64)
		if err != nil {
			return bad()
		}
		v.SetFloat(f)
	default:
		return fmt.Errorf("parameter %s: no way to read a %s", path, v.Type())
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// epoch is a time that JSON has in seconds since 1970.
type epoch time.Time

// MarshalJSON writes seconds.
func (e epoch) MarshalJSON() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(time.Time(e).UnixMilli())/1000, 'f', -1, 64)), nil
}

// write answers a call.
func (s *service) write(w http.ResponseWriter, action, requestID string, out any) error {
	var body []byte
	var err error
	kind := "text/xml;charset=UTF-8"
	switch s.protocol {
	case ec2Query, awsQuery:
		body, err = s.xml(action, requestID, out)
	case restJSON:
		kind = "application/json"
		body, err = json.Marshal(out)
	case awsJSON10:
		kind = "application/x-amz-json-1.0"
		body, err = json.Marshal(out)
	case awsJSON11:
		kind = "application/x-amz-json-1.1"
		body, err = json.Marshal(out)
	}
	if err != nil {
		return fmt.Errorf("encode the answer of %s: %w", action, err)
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Amzn-Requestid", requestID)
	_, _ = w.Write(body) // whoever asked has gone
	return nil
}

// xml writes an answer in the envelope of its protocol.
func (s *service) xml(action, requestID string, out any) ([]byte, error) {
	name := action + "Response"
	if s.protocol == awsQuery {
		name = action + "Result"
	}
	var b bytes.Buffer
	if err := xml.NewEncoder(&b).EncodeElement(out, xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
		return nil, err
	}
	inside := strings.TrimSuffix(strings.TrimPrefix(b.String(), "<"+name+">"), "</"+name+">")
	if s.protocol == ec2Query {
		if _, empty := out.(*none); empty {
			inside = "<return>true</return>"
		}
		return fmt.Appendf(nil, "%s<%s xmlns=%q><requestId>%s</requestId>%s</%s>", xml.Header, name, s.namespace, requestID, inside, name), nil
	}
	return fmt.Appendf(nil, "%s<%sResponse xmlns=%q><%sResult>%s</%sResult><ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></%sResponse>",
		xml.Header, action, s.namespace, action, inside, action, requestID, action), nil
}

// refuse answers a call that failed.
func (s *service) refuse(w http.ResponseWriter, requestID string, e *apiError) {
	status := e.Status
	if status == 0 {
		status = http.StatusBadRequest
	}
	escape := func(text string) string {
		var b strings.Builder
		_ = xml.EscapeText(&b, []byte(text)) // into memory
		return b.String()
	}
	fault := "Sender"
	if status >= 500 {
		fault = "Receiver"
	}
	var body string
	h := w.Header()
	h.Set("X-Amzn-Requestid", requestID)
	switch s.protocol {
	case ec2Query:
		h.Set("Content-Type", "text/xml;charset=UTF-8")
		body = fmt.Sprintf("%s<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>%s</RequestID></Response>",
			xml.Header, e.Code, escape(e.Message), requestID)
	case awsQuery:
		h.Set("Content-Type", "text/xml")
		if legacy := s.legacyCodes[e.Code]; legacy != "" {
			e = &apiError{Code: legacy, Message: e.Message, Status: e.Status}
		}
		body = fmt.Sprintf("%s<ErrorResponse xmlns=%q><Error><Type>%s</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>",
			xml.Header, s.namespace, fault, e.Code, escape(e.Message), requestID)
	default:
		h.Set("Content-Type", map[protocol]string{awsJSON10: "application/x-amz-json-1.0", awsJSON11: "application/x-amz-json-1.1", restJSON: "application/json"}[s.protocol])
		h.Set("X-Amzn-Errortype", e.Code)
		if legacy := s.legacyCodes[e.Code]; legacy != "" {
			h.Set("X-Amzn-Query-Error", legacy+";"+fault)
		}
		raw, err := json.Marshal(struct {
			Type    string `json:"__type"`
			Message string `json:"message"`
		}{s.errorPrefix + e.Code, e.Message})
		if err != nil {
			panic(err) // two strings
		}
		body = string(raw)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // whoever asked has gone
}

// service is one service of AWS.
type service struct {
	name        string // as in a request's signature
	protocol    protocol
	version     string
	namespace   string
	target      string // X-Amz-Target's prefix
	errorPrefix string // of __type
	legacyCodes map[string]string
	throttled   string // its code for too many calls
	denied      string // its code for a call that the caller may not make
	operations  map[string]*operation
	query       *service // the same calls in the query protocol, for clients that speak no JSON yet; nil: the service has one protocol
}

// spoken is the service in the protocol of a request.
func (s *service) spoken(r *http.Request) *service {
	if s.query != nil && r.Header.Get("X-Amz-Target") == "" {
		return s.query
	}
	return s
}

// operation is one call of a service.
type operation struct {
	in, out      reflect.Type
	method, path string // restJSON
	changes      bool
	run          func(ctx context.Context, c *Cloud, in any) (any, error)
}
