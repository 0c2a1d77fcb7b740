// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package wire reads and writes calls in the protocols of AWS services: the query protocol of EC2, the query protocol of
// older services, JSON 1.0 and 1.1, and REST with JSON. It does not know any service: Service and Operation define the
// calls of a service, by types whose tags name their fields in the protocol. A parameter without a field is rejected,
// never ignored.
//
// Start reading at Service.
package wire

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
	"strings"
)

// MaxBody is the maximum size of a request body in bytes.
const MaxBody = 8 << 20

// Protocol is the wire protocol of a service.
type Protocol int

// Protocols.
const (
	EC2Query Protocol = iota // form in, XML out; lists are flat
	AWSQuery                 // form in, XML out; lists have members
	AWSJSON10
	AWSJSON11
	RESTJSON
)

// Service is one service of AWS.
type Service struct {
	Name        string // as in the signature of a request
	Protocol    Protocol
	Version     string // EC2Query, AWSQuery
	Namespace   string // EC2Query, AWSQuery: XML namespace
	Target      string // AWSJSON10, AWSJSON11: prefix of X-Amz-Target
	ErrorPrefix string // prefix of __type
	LegacyCodes map[string]string
	Throttled   string // error code for throttled calls
	Denied      string // error code for denied calls
	Operations  map[string]*Operation
	Query       *Service // the same calls in the query protocol, for clients without JSON support; nil: the service has one protocol
}

// Spoken returns the service with the protocol of a request.
func (s *Service) Spoken(r *http.Request) *Service {
	if s.Query != nil && r.Header.Get("X-Amz-Target") == "" {
		return s.Query
	}
	return s
}

// Operation is one call of a service.
type Operation struct {
	In, Out      reflect.Type // structs
	Method, Path string       // RESTJSON: the path has parameters in braces, e.g. /clusters/{name}
	// Run executes the call. in is a pointer to a value of type In, and out one to a value of type Out. An error other
	// than Error is an internal error.
	Run func(ctx context.Context, in any) (out any, err error)
}

// At sets method and path of a call of a RESTJSON service, and returns it.
func (o *Operation) At(method, path string) *Operation {
	o.Method, o.Path = method, path
	return o
}

// ServiceOf returns the service for which a request is signed: Credential=KEY/DATE/REGION/SERVICE/aws4_request.
func ServiceOf(r *http.Request) string {
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

// Read determines the call of a request and decodes its input into a pointer to the operation's input struct.
func (s *Service) Read(r *http.Request) (action string, op *Operation, in any, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, MaxBody))
	if err != nil {
		return "", nil, nil, Refuse("RequestEntityTooLarge", "read request: %s", err)
	}
	switch s.Protocol {
	case EC2Query, AWSQuery:
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return "", nil, nil, Refuse("MalformedQueryString", "%s", err)
		}
		action = form.Get("Action")
		if op = s.Operations[action]; op == nil {
			return action, nil, nil, Refuse("InvalidAction", "The action %s is not valid for this web service.", action)
		}
		if v := form.Get("Version"); v != s.Version {
			return action, op, nil, Refuse("NoSuchVersion", "The requested version (%s) is not valid.", v)
		}
		form.Del("Action")
		form.Del("Version")
		in, err = decodeForm(form, op.In)
		return action, op, in, err
	case AWSJSON10, AWSJSON11:
		prefix, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		action = name
		if op = s.Operations[action]; op == nil || prefix != s.Target {
			return action, nil, nil, Refuse("UnknownOperationException", "%s", r.Header.Get("X-Amz-Target"))
		}
		in, err = decodeJSON(body, op.In)
		return action, op, in, err
	}
	for name, o := range s.Operations {
		if values, ok := matchPath(o.Path, r.URL.EscapedPath()); ok && r.Method == o.Method {
			if in, err = decodeJSON(body, o.In); err != nil {
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
	return "", nil, nil, &Error{Code: "UnrecognizedClientException", Message: r.Method + " " + r.URL.Path, Status: http.StatusNotFound}
}

// matchPath matches /clusters/{name} and the like with a path as it was sent: a value may have escaped slashes.
func matchPath(pattern, path string) (map[string]string, bool) {
	want, have := strings.Split(pattern, "/"), strings.Split(strings.TrimSuffix(path, "/"), "/")
	if len(want) != len(have) {
		return nil, false
	}
	values := map[string]string{}
	for i, w := range want {
		value, err := url.PathUnescape(have[i])
		if err != nil {
			return nil, false
		}
		if strings.HasPrefix(w, "{") {
			values[strings.Trim(w, "{}")] = value
		} else if w != value {
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
		return nil, Refuse("SerializationException", "%s", err)
	}
	return v, nil
}

// Write writes the response of a call.
func (s *Service) Write(w http.ResponseWriter, action, requestID string, out any) error {
	var body []byte
	var err error
	kind := "text/xml;charset=UTF-8"
	switch s.Protocol {
	case EC2Query, AWSQuery:
		body, err = s.xml(action, requestID, out)
	case RESTJSON:
		kind = "application/json"
		body, err = json.Marshal(out)
	case AWSJSON10:
		kind = "application/x-amz-json-1.0"
		body, err = json.Marshal(out)
	case AWSJSON11:
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
func (s *Service) xml(action, requestID string, out any) ([]byte, error) {
	name := action + "Response"
	if s.Protocol == AWSQuery {
		name = action + "Result"
	}
	var b bytes.Buffer
	if err := xml.NewEncoder(&b).EncodeElement(out, xml.StartElement{Name: xml.Name{Local: name}}); err != nil {
		return nil, err
	}
	inside := strings.TrimSuffix(strings.TrimPrefix(b.String(), "<"+name+">"), "</"+name+">")
	if s.Protocol == EC2Query {
		if _, empty := out.(*None); empty {
			inside = "<return>true</return>"
		}
		return fmt.Appendf(nil, "%s<%s xmlns=%q><requestId>%s</requestId>%s</%s>", xml.Header, name, s.Namespace, requestID, inside, name), nil
	}
	return fmt.Appendf(nil, "%s<%sResponse xmlns=%q><%sResult>%s</%sResult><ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></%sResponse>",
		xml.Header, action, s.Namespace, action, inside, action, requestID, action), nil
}

// Fail writes the error response of a call.
func (s *Service) Fail(w http.ResponseWriter, requestID string, e *Error) {
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
	switch s.Protocol {
	case EC2Query:
		h.Set("Content-Type", "text/xml;charset=UTF-8")
		body = fmt.Sprintf("%s<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>%s</RequestID></Response>",
			xml.Header, e.Code, escape(e.Message), requestID)
	case AWSQuery:
		h.Set("Content-Type", "text/xml")
		if legacy := s.LegacyCodes[e.Code]; legacy != "" {
			e = &Error{Code: legacy, Message: e.Message, Status: e.Status}
		}
		body = fmt.Sprintf("%s<ErrorResponse xmlns=%q><Error><Type>%s</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>%s</RequestId></ErrorResponse>",
			xml.Header, s.Namespace, fault, e.Code, escape(e.Message), requestID)
	default:
		h.Set("Content-Type", map[Protocol]string{AWSJSON10: "application/x-amz-json-1.0", AWSJSON11: "application/x-amz-json-1.1", RESTJSON: "application/json"}[s.Protocol])
		h.Set("X-Amzn-Errortype", e.Code)
		if legacy := s.LegacyCodes[e.Code]; legacy != "" {
			h.Set("X-Amzn-Query-Error", legacy+";"+fault)
		}
		raw, err := json.Marshal(struct {
			Type    string `json:"__type"`
			Message string `json:"message"`
		}{s.ErrorPrefix + e.Code, e.Message})
		if err != nil {
			panic(err) // two strings
		}
		body = string(raw)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // whoever asked has gone
}
