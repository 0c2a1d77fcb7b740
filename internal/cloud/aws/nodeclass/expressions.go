// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
)

// expressionCostLimit is how much work one evaluation of an expression may be, in CEL's units: about a millisecond.
const expressionCostLimit = 10_000

// Variables of expressions. In the expression for the number of pods, maxPods is the number without the expression; in
// all others, it is the resulting number.
const (
	varInstanceType = "instance_type"
	varCPUs         = "vcpus"
	varMemoryMiB    = "memory_mib"
	varENIs         = "default_enis"
	varAddresses    = "ips_per_eni"
	varMaxPods      = "max_pods"
)

// newExpressionEnv is CEL's standard library with the variables of expressions, and min and max of two numbers.
func newExpressionEnv() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable(varInstanceType, cel.StringType), cel.Variable(varCPUs, cel.IntType), cel.Variable(varMemoryMiB, cel.IntType),
		cel.Variable(varENIs, cel.IntType), cel.Variable(varAddresses, cel.IntType), cel.Variable(varMaxPods, cel.IntType),
		chooseFunction("min", types.IntNegOne), chooseFunction("max", types.IntOne),
	)
}

// chooseFunction is a function of two numbers that returns the first where it compares to the second as wanted says,
// and else the second. Of an int and a double the result is a double.
func chooseFunction(name string, wanted types.Int) cel.EnvOption {
	choose := func(a, b ref.Val) ref.Val {
		order := a.(traits.Comparer).Compare(b)
		if types.IsError(order) {
			return order
		}
		if order == wanted {
			return a
		}
		return b
	}
	var overloads []cel.FunctionOpt
	for _, a := range []*cel.Type{cel.IntType, cel.DoubleType} {
		for _, b := range []*cel.Type{cel.IntType, cel.DoubleType} {
			result, bind := cel.DoubleType, func(x, y ref.Val) ref.Val { return choose(x, y).ConvertToType(types.DoubleType) }
			if a == cel.IntType && b == cel.IntType {
				result, bind = cel.IntType, choose
			}
			overloads = append(overloads, cel.Overload(fmt.Sprintf("%s_%s_%s", name, a, b), []*cel.Type{a, b}, result, cel.BinaryBinding(bind)))
		}
	}
	return cel.Function(name, overloads...)
}

// compiledExpression is an expression that can be evaluated.
type compiledExpression struct {
	expression
	program cel.Program
}

// compileExpressions compiles the expressions of a spec.kubelet. The error names the field of one that can't be.
func compileExpressions(env *cel.Env, list []expression) ([]compiledExpression, error) {
	var out []compiledExpression
	for _, x := range list {
		fail := func(format string, args ...any) error {
			return awsapi.NewUnresolvedError(awsv1.ReasonKubeletExpressionInvalid, "%s: CEL expression %s %s. Correct it; its variables are %s, a string, and %s and %s, ints (double(%s) is a double)",
				x.path(), x.quoted(), fmt.Sprintf(format, args...), varInstanceType, strings.Join([]string{varCPUs, varMemoryMiB, varENIs, varAddresses}, ", "), varMaxPods, varCPUs)
		}
		parsed, issues := env.Compile(x.text)
		if issues.Err() != nil {
			first := issues.Errors()[0]
			where := ""
			if first.Location.Line() > 0 { // else it is about the whole
				where = fmt.Sprintf("line %d, column %d: ", first.Location.Line(), first.Location.Column()+1)
			}
			return nil, fail("can't be compiled: %s%s", where, first.Message)
		}
		if kind := parsed.OutputType(); kind != cel.IntType && kind != cel.DoubleType {
			return nil, fail("is of type %s, and must be an int or a double", kind)
		}
		program, err := env.Program(parsed, cel.CostLimit(expressionCostLimit))
		if err != nil {
			return nil, fail("can't be compiled: %v", err)
		}
		out = append(out, compiledExpression{x, program})
	}
	return out, nil
}

// evaluate is the whole number that the expression comes to with these variables; of a double the fraction is cut off.
func (x compiledExpression) evaluate(variables map[string]any) (int64, error) {
	result, _, err := x.program.Eval(variables)
	if err != nil {
		return 0, err
	}
	n := 0.0
	switch v := result.Value().(type) {
	case int64:
		if v >= 0 && v <= math.MaxInt32 {
			return v, nil
		}
		n = float64(v)
	case float64:
		if n = math.Trunc(v); n >= 0 && n <= math.MaxInt32 { // NaN is neither
			return int64(n), nil
		}
	}
	return 0, fmt.Errorf("the result is %s, and must be from 0 to %d", strconv.FormatFloat(n, 'f', -1, 64), math.MaxInt32)
}

// reservedAmount writes what an expression for a reserved resource came to as a quantity: milli-cores, MiB and GiB. CPU
// and memory are rounded up to steps, so that types of nearly the same size share a launch template.
func reservedAmount(key string, n int64) string {
	roundUp := func(step int64) int64 { return (n + step - 1) / step * step }
	switch key {
	case "cpu":
		return fmt.Sprintf("%dm", roundUp(10))
	case "memory":
		return fmt.Sprintf("%dMi", roundUp(16))
	case "ephemeral-storage":
		return fmt.Sprintf("%dGi", n)
	}
	return strconv.FormatInt(n, 10) // processes
}

// withValues is a copy with values in place of the expressions for the number of pods, where that is not nil, and for
// what is reserved, by field and key.
func (k *KubeletConfig) withValues(maxPods *int64, reserved map[string]map[string]string) *KubeletConfig {
	out := *k
	out.expressions, out.fields = nil, maps.Clone(k.fields)
	if maxPods != nil {
		out.MaxPods, out.fields[fieldMaxPods] = maxPods, *maxPods
	}
	for field, into := range map[string]*map[string]string{fieldKubeReserved: &out.KubeReserved, fieldSystemReserved: &out.SystemReserved} {
		if len(reserved[field]) > 0 {
			*into = maps.Clone(*into)
			maps.Copy(*into, reserved[field])
			out.fields[field] = *into
		}
	}
	return &out
}

// withSamples is a copy with some value in place of every expression.
func (k *KubeletConfig) withSamples() *KubeletConfig {
	if len(k.expressions) == 0 {
		return k
	}
	pods, reserved := int64(110), map[string]map[string]string{fieldKubeReserved: {}, fieldSystemReserved: {}}
	for _, x := range k.expressions {
		if x.key != "" {
			reserved[x.field][x.key] = reservedAmount(x.key, 1024)
		}
	}
	return k.withValues(&pods, reserved)
}

// evaluateOn is the configuration on machines of a type, with the values of its expressions in their place. The number
// of pods is worked out first, since what is reserved may depend on it.
func (k *KubeletConfig) evaluateOn(t *catalogue.TypeInfo, family string, podlessENIs int64, list []compiledExpression) (*KubeletConfig, error) {
	variables := map[string]any{
		varInstanceType: t.Name, varCPUs: t.CPUs, varMemoryMiB: t.MemoryMiB, varENIs: t.ENIs, varAddresses: t.Addresses,
		varMaxPods: k.MaxPodsOn(t, family, podlessENIs),
	}
	out, reserved := k, map[string]map[string]string{fieldKubeReserved: {}, fieldSystemReserved: {}}
	for _, x := range list {
		n, err := x.evaluate(variables)
		if err != nil {
			return nil, awsapi.NewUnresolvedError(awsv1.ReasonKubeletExpressionEvaluationFailed,
				"%s: CEL expression %s fails on %s: %v. Correct it, so that it has a value for every instance type", x.path(), x.quoted(), t.Name, err)
		}
		if x.field != fieldMaxPods {
			reserved[x.field][x.key] = reservedAmount(x.key, n)
			continue
		}
		out = out.withValues(&n, nil)
		variables[varMaxPods] = out.MaxPodsOn(t, family, podlessENIs)
	}
	return out.withValues(nil, reserved), nil
}

// EvaluateKubelet evaluates the expressions in spec.kubelet of a class for every instance type of a catalog. An error
// names the field of an invalid expression and the reason.
func (cr *Resolver) EvaluateKubelet(ctx context.Context, c *Class, cat *catalogue.Catalogue) (KubeletsByType, error) {
	if len(c.KubeletConfig.expressions) == 0 {
		return KubeletsByType{}, nil
	}
	env, err := cr.expressionEnv()
	if err != nil {
		return KubeletsByType{}, err
	}
	list, err := compileExpressions(env, c.KubeletConfig.expressions)
	if err != nil {
		return KubeletsByType{}, err
	}
	out := KubeletsByType{Version: cat.Version, byType: map[string]*KubeletConfig{}}
	for _, t := range cat.Types {
		if err := ctx.Err(); err != nil {
			return KubeletsByType{}, err
		}
		if out.byType[t.Name], err = c.KubeletConfig.evaluateOn(t, c.Family, c.PodlessENIs(cr.aws.Config.ReservedENIs), list); err != nil {
			return KubeletsByType{}, err
		}
	}
	return out, nil
}

// kubeletsOf is EvaluateKubelet for the catalog as it is known, remembered for each generation of a class.
func (cr *Resolver) kubeletsOf(ctx context.Context, c *Class) (KubeletsByType, error) {
	if len(c.KubeletConfig.expressions) == 0 {
		return KubeletsByType{}, nil
	}
	cat, err := cr.catalogue.Load(ctx, false)
	if err != nil {
		return KubeletsByType{}, err
	}
	out, err := cr.kubelets.Get(ctx, fmt.Sprintf("%s %d", c.GenerationKey, cat.Version), func(ctx context.Context) (KubeletsByType, error) {
		made, err := cr.EvaluateKubelet(ctx, c, cat)
		if u := (*awsapi.UnresolvedError)(nil); errors.As(err, &u) {
			return KubeletsByType{problem: err}, nil // the same until the class or the catalog changes
		}
		return made, err
	})
	if err != nil {
		return KubeletsByType{}, err
	}
	return out, out.problem
}

// KubeletOn returns the kubelet configuration for machines of a type; nil if its expressions have not been evaluated for
// the type yet, because EC2 has just added it.
func (r *Resolved) KubeletOn(instanceType string) *KubeletConfig {
	if r.Kubelets.byType == nil {
		return r.KubeletConfig
	}
	return r.Kubelets.byType[instanceType]
}
