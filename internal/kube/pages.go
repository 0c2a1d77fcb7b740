// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"bytes"
	"context"
	"fmt"
	"reflect"

	"google.golang.org/protobuf/encoding/protowire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// listPage is how many objects are in one answer where all are read once.
const listPage = 1000

// livePods is the field selector that has the API server leave out pods that have ended.
const livePods = "status.phase!=Succeeded,status.phase!=Failed"

// readAll lists all objects of a kind that a field selector accepts, once. Pages that took longer than the API server remembers are
// followed by all objects at once; each is then called again with those that it has had.
func readAll[T metav1.Object](ctx context.Context, src source, selector string, each func(T)) error {
	err := readPages(ctx, src, selector, listPage, each)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		err = readPages(ctx, src, selector, 0, each)
	}
	return err
}

// readPages lists all objects, so many at a time; 0: all at once. The API server makes the next page while one is decoded.
func readPages[T metav1.Object](ctx context.Context, src source, selector string, page int64, each func(T)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func(token string) chan rest.Result {
		answer := make(chan rest.Result, 1)
		go func() {
			answer <- src.client.Get().Resource(src.resource).
				VersionedParams(&metav1.ListOptions{FieldSelector: selector, Limit: page, Continue: token}, metav1.ParameterCodec).Do(ctx)
		}()
		return answer
	}
	for next := ask(""); next != nil; {
		answer := <-next
		next = nil
		raw, err := answer.Raw()
		if err != nil {
			return answer.Error() // which reads what the API server says of it
		}
		if list, binary := cutBinaryList(raw); binary {
			if token := list.continueToken(); token != "" {
				next = ask(token)
			}
			if err := eachBinaryItem(list, each); err != nil {
				return fmt.Errorf("decode %s: %w", src.resource, err)
			}
			continue
		}
		list, err := answer.Get()
		if err != nil {
			return err
		}
		if err := eachItem(list, each); err != nil {
			return err
		}
		m, err := meta.ListAccessor(list)
		if err != nil {
			return err
		}
		if token := m.GetContinue(); token != "" {
			next = ask(token)
		}
	}
	return nil
}

// eachItem calls each with every object of a list.
func eachItem[T metav1.Object](list runtime.Object, each func(T)) error {
	return meta.EachListItem(list, func(obj runtime.Object) error {
		x, ok := obj.(T)
		if !ok {
			return fmt.Errorf("list: got a %T, want a %T", obj, x)
		}
		each(x)
		return nil
	})
}

// binaryList is a list of objects in Kubernetes' protobuf.
type binaryList []byte

// Numbers of fields in runtime.Unknown, in any list of objects, and in ListMeta.
const (
	unknownRaw   = 2
	listMetadata = 1
	listItems    = 2
	metaContinue = 3
)

// cutBinaryList takes the list out of an answer; false: the answer is in no protobuf.
func cutBinaryList(answer []byte) (list binaryList, ok bool) {
	raw, ok := bytes.CutPrefix(answer, []byte("k8s\x00"))
	if !ok {
		return nil, false
	}
	return bytesField(raw, unknownRaw)
}

// continueToken is the token of the page after this one; empty: it is the last.
func (l binaryList) continueToken() string {
	listMeta, _ := bytesField(l, listMetadata)
	token, _ := bytesField(listMeta, metaContinue)
	return string(token)
}

// eachBinaryItem decodes the objects of a list one by one. A slice of a thousand pods that grows while they are decoded costs as much
// as decoding them.
func eachBinaryItem[T metav1.Object](list binaryList, each func(T)) error {
	kind := reflect.TypeFor[T]().Elem()
	for rest := []byte(list); len(rest) > 0; {
		number, wire, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return protowire.ParseError(n)
		}
		rest = rest[n:]
		if number != listItems || wire != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, wire, rest); n < 0 {
				return protowire.ParseError(n)
			}
			rest = rest[n:]
			continue
		}
		item, n := protowire.ConsumeBytes(rest)
		if n < 0 {
			return protowire.ParseError(n)
		}
		rest = rest[n:]
		x := reflect.New(kind).Interface()
		m, ok := x.(interface{ Unmarshal([]byte) error })
		if !ok {
			return fmt.Errorf("a %T has no protobuf", x)
		}
		if err := m.Unmarshal(item); err != nil {
			return err
		}
		each(x.(T))
	}
	return nil
}

// bytesField finds the first field with a number in a protobuf message; false: there is none, or it is no string, bytes or message.
func bytesField(message []byte, number protowire.Number) ([]byte, bool) {
	for len(message) > 0 {
		have, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, false
		}
		message = message[n:]
		if have == number {
			value, n := protowire.ConsumeBytes(message)
			return value, kind == protowire.BytesType && n >= 0
		}
		if n = protowire.ConsumeFieldValue(have, kind, message); n < 0 {
			return nil, false
		}
		message = message[n:]
	}
	return nil, false
}
