// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "strings"

// Details of what keeps a node.
type (
	// OfClusterMinimum is a resource of which the cluster would have too little.
	OfClusterMinimum struct {
		detail
		Resource ResourceName `key:"%s"`
		Least    Amount       `want:"%s"`
		Have     Amount       `have:"%s"`
	}
	// OfNoHome is why no node can be launched for a pod.
	OfNoHome struct {
		detail
		Code   Code // empty: not known
		Detail Detail
	}
)

// NoHomeFor returns the Detail of a refused pod: the reason why no node can be launched for it.
func NoHomeFor(r Reason) OfNoHome { return OfNoHome{Code: r.Code, Detail: r.Detail} }

func (d OfNoHome) fields() Fields {
	f := Reason{Code: d.Code, Detail: d.Detail}.Fields()
	f.Subject, f.Key = "", strings.TrimSpace(string(d.Code)+" "+f.Key)
	return f
}

func (OfNoHome) read(f Fields) Detail {
	code, key, _ := strings.Cut(f.Key, " ")
	f.Key = key
	r := ReadReason(Code(code), f)
	return OfNoHome{Code: r.Code, Detail: r.Detail}
}
