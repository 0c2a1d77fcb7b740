// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package expander

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
)

// Fields of the protocol's messages. The deprecated ones that hold whole objects (nodeMap 2, pod 4) are not written: Cluster
// Autoscaler itself does not any more, from 1.35 on.
const (
	requestOptions  = 1 // repeated Option
	requestNodes    = 3 // map from a group's name to a node in bytes
	responseOptions = 1 // repeated Option

	optionGroup = 1
	optionNodes = 2
	optionDebug = 3
	optionPods  = 5 // repeated bytes

	mapKey   = 1
	mapValue = 2
)

// encodeRequest writes a BestOptionsRequest.
func encodeRequest(query *nodegroups.Query) ([]byte, error) {
	var out []byte
	for i := range query.Options {
		o := &query.Options[i]
		var option []byte
		option = appendString(option, optionGroup, o.Group)
		option = protowire.AppendTag(option, optionNodes, protowire.VarintType)
		option = protowire.AppendVarint(option, uint64(o.Nodes))
		option = appendString(option, optionDebug, fmt.Sprintf("NodePool %s, %s", o.Pool.Name, o.First.Type.Name))
		for _, p := range o.Pods {
			pod, err := podOf(p, query.ResourceNames).Marshal()
			if err != nil {
				return nil, fmt.Errorf("encode pod %s: %w", p.Key(), err)
			}
			option = appendBytes(option, optionPods, pod)
		}
		out = appendBytes(out, requestOptions, option)
	}
	for i := range query.Options {
		o := &query.Options[i]
		node, err := nodeOf(o, query.ResourceNames).Marshal()
		if err != nil {
			return nil, fmt.Errorf("encode a node of group %s: %w", o.Group, err)
		}
		out = appendBytes(out, requestNodes, appendBytes(appendString(nil, mapKey, o.Group), mapValue, node))
	}
	return out, nil
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendBytes(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}

// decodeResponse reads the names of the groups of a BestOptionsResponse. What else it says of them is not looked at.
func decodeResponse(message []byte) (groups []string, err error) {
	err = eachBytes(message, func(field protowire.Number, option []byte) error {
		if field != responseOptions {
			return nil
		}
		return eachBytes(option, func(field protowire.Number, value []byte) error {
			if field == optionGroup {
				groups = append(groups, string(value))
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the expander's answer: %w", err)
	}
	return groups, nil
}

// eachBytes hands over the fields of a message that hold bytes, in order.
func eachBytes(message []byte, take func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(field, kind, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := take(field, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
