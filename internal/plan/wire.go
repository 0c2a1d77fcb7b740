// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// A Detail's tags say where its fields stand on the wire: in subject, key, want or have, as a text in which %s is the value,
// and after | as what is written if there is no value: no text, no instant, false, 0 (only where | is given). Several fields in
// one place follow each other. A text without %s stands there in any case, or, of a flag, if it is set: then it stands alone,
// or before what follows if it ends with a space.
// An Amount has no value if the Detail names no ResourceName.

// places are the places on the wire, and the keys of tags.
var places = [...]string{"subject", "key", "want", "have"}

// irregular is a Detail whose place on the wire depends on what it is about.
type irregular interface {
	fields() Fields
	read(Fields) Detail // nil: it is not written as fields does
}

// piece is what one field adds to one place.
type piece struct {
	field         int // -1: a text that is always there
	before, after string
	value         bool   // whether the field's value stands between before and after
	none          string // what stands there if there is no value
	mayLack       bool   // whether 0 is no value
	flag          bool
}

// isPrefix reports whether the text of a flag goes before what follows.
func (x *piece) isPrefix() bool { return strings.HasSuffix(x.before, " ") }

// form is how a type of Detail stands on the wire.
type form struct {
	kind     reflect.Type
	resource int // field of type ResourceName; -1: none
	places   [len(places)][]piece
}

var (
	resourceType = reflect.TypeFor[ResourceName]()
	amountType   = reflect.TypeFor[Amount]()
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()
	microType    = reflect.TypeFor[Micro]()
)

// forms are the forms of all types of Detail.
var forms = func() map[reflect.Type]*form {
	out := map[reflect.Type]*form{}
	for _, d := range details {
		if kind := reflect.TypeOf(d); out[kind] == nil {
			if _, ok := d.(irregular); ok {
				continue
			}
			out[kind] = formOf(kind)
		}
	}
	return out
}()

func formOf(kind reflect.Type) *form {
	out := &form{kind: kind, resource: -1}
	for i := range kind.NumField() {
		f := kind.Field(i)
		if f.Type == resourceType {
			out.resource = i
		}
		for p, name := range places {
			text, ok := f.Tag.Lookup(name)
			if !ok {
				continue
			}
			x := piece{field: i, flag: f.Type.Kind() == reflect.Bool}
			if f.Name == "_" {
				x.field = -1
			}
			text, x.none, x.mayLack = strings.Cut(text, "|")
			x.before, x.after, x.value = strings.Cut(text, "%s")
			out.places[p] = append(out.places[p], x)
		}
	}
	return out
}

// namesSubject reports whether a Detail may say itself what the reason is about.
func namesSubject(d Detail) bool {
	f := forms[reflect.TypeOf(d)]
	_, own := d.(irregular)
	return !own && len(f.places[0]) > 0
}

// encode writes a Detail for the wire.
func encode(d Detail) Fields {
	if x, ok := d.(irregular); ok {
		return x.fields()
	}
	v := reflect.ValueOf(d)
	f := forms[v.Type()]
	if f == nil {
		panic(fmt.Sprintf("plan: %T is in no row of details", d))
	}
	var out [len(places)]string
	for p, pieces := range f.places {
		for i := range pieces {
			text, alone := f.write(v, &pieces[i])
			out[p] += text
			if alone {
				break
			}
		}
	}
	return Fields{out[0], out[1], out[2], out[3]}
}

// write returns what a piece adds, and whether it stands alone.
func (f *form) write(v reflect.Value, x *piece) (text string, alone bool) {
	if x.field < 0 {
		return x.before, false
	}
	field := v.Field(x.field)
	if x.flag {
		if field.Bool() {
			return x.before, !x.isPrefix()
		}
		return x.none, false
	}
	s, ok := f.format(v, field)
	if !ok || x.mayLack && field.IsZero() && field.Type() != amountType {
		return x.none, false
	}
	return x.before + s + x.after, false
}

// format writes the value of a field; false: there is none.
func (f *form) format(v, field reflect.Value) (string, bool) {
	switch x := field.Interface().(type) {
	case Amount:
		resource := v.Field(f.resource).String()
		return FormatAmount(ResourceName(resource), int64(x)), resource != ""
	case time.Time:
		return x.UTC().Format(time.RFC3339), !x.IsZero()
	case time.Duration:
		return x.String(), true
	case float64:
		return strconv.FormatFloat(x, 'f', 2, 64), true
	case Micro:
		return "$" + model.Dollars(int64(x)), true
	}
	if field.CanInt() {
		return strconv.FormatInt(field.Int(), 10), true
	}
	return field.String(), field.Len() > 0
}

// decode reads a Detail of a type from the wire; nil: it is not written as encode writes it.
func decode(d Detail, from Fields) Detail {
	if x, ok := d.(irregular); ok {
		return x.read(from)
	}
	f := forms[reflect.TypeOf(d)]
	v := reflect.New(f.kind).Elem()
	texts := [...]string{from.Subject, from.Key, from.Want, from.Have}
	for _, amounts := range []bool{false, true} { // amounts last, since their unit stands beside them
		for p, pieces := range f.places {
			if !f.read(v, pieces, texts[p], amounts) {
				return nil
			}
		}
	}
	return v.Interface().(Detail)
}

// read reads what stands in one place, and reports whether it could.
func (f *form) read(v reflect.Value, pieces []piece, text string, amounts bool) bool {
	for i := range pieces {
		x := &pieces[i]
		switch {
		case text == "" && i == 0: // nothing is said
			return true
		case x.field < 0 || x.flag:
			if rest, ok := strings.CutPrefix(text, x.before); ok && (!x.flag || rest == "" || x.isPrefix()) {
				if x.flag {
					v.Field(x.field).SetBool(true)
				}
				if text = rest; x.flag && rest == "" {
					return true
				}
			} else if text, ok = strings.CutPrefix(text, x.none); !ok || !x.flag {
				return false
			}
			continue
		case text == x.none && (x.none != "" || i == len(pieces)-1 || text == ""):
			text = ""
			continue
		}
		rest, ok := strings.CutPrefix(text, x.before)
		if !ok {
			continue // there is no value; what is left over is found at the end
		}
		end := len(rest) // up to what follows
		if x.after != "" {
			if end = strings.Index(rest, x.after); end < 0 {
				continue
			}
		} else {
			for j := i + 1; j < len(pieces) && pieces[j].before != ""; j++ {
				if k := strings.Index(rest, pieces[j].before); k >= 0 {
					end = min(end, k)
				}
				if !pieces[j].mayLack {
					break
				}
			}
		}
		if field := v.Field(x.field); (field.Type() == amountType) == amounts && !f.parse(v, field, rest[:end]) {
			return false
		}
		text = rest[end+len(x.after):]
	}
	return text == ""
}

// parse sets a field to the value that format wrote, and reports whether it could.
func (f *form) parse(v, field reflect.Value, text string) bool {
	var n int64
	var err error
	switch field.Type() {
	case amountType:
		n, err = ParseAmount(ResourceName(v.Field(f.resource).String()), text)
	case timeType:
		t, err := time.Parse(time.RFC3339, text)
		field.Set(reflect.ValueOf(t))
		return err == nil
	case durationType:
		d, err := time.ParseDuration(text)
		field.SetInt(int64(d))
		return err == nil
	case microType:
		n, err = parseMoney(text)
	default:
		if field.CanFloat() {
			v, err := strconv.ParseFloat(text, 64)
			field.SetFloat(v)
			return err == nil
		}
		if !field.CanInt() {
			field.SetString(text)
			return true
		}
		n, err = strconv.ParseInt(text, 10, 64)
	}
	field.SetInt(n)
	return err == nil
}

// FormatAmount writes an amount of a resource as Kubernetes does, and dollars as a decimal number.
func FormatAmount(r ResourceName, v int64) string {
	if r == model.DollarsPerHour {
		return model.FormatMicro(v)
	}
	return model.FormatAmount(model.DimOf(string(r)), v)
}

// ParseAmount reads what FormatAmount writes.
func ParseAmount(r ResourceName, text string) (int64, error) {
	if r == model.DollarsPerHour {
		return parseMoney(text)
	}
	return model.ParseAmount(model.DimOf(string(r)), text)
}

// parseMoney reads dollars.
func parseMoney(text string) (int64, error) {
	usd, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	return int64(math.Round(usd * 1e6)), err
}
