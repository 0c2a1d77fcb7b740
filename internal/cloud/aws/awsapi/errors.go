// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// DefaultThrottleDelay is the pause after a throttled call whose answer does not say how long: EC2's buckets refill within seconds.
const DefaultThrottleDelay = time.Second

// Codes of EC2 that we act on.
const (
	CodeTokenReused     = "IdempotentParameterMismatch"
	CodeDryRun          = "DryRunOperation"
	CodeInstanceUnknown = "InvalidInstanceID.NotFound"
	CodeInstanceBad     = "InvalidInstanceID.Malformed"
	CodeTemplateExists  = "InvalidLaunchTemplateName.AlreadyExistsException"
	CodeNoAddresses     = "InsufficientFreeAddressesInSubnet"
	CodeUnfulfillable   = "UnfulfillableCapacity"
)

// IsOutOfCapacity says whether a code of CreateFleet means that an offering can't be had now.
func IsOutOfCapacity(code string) bool {
	switch code {
	case "InsufficientInstanceCapacity", "MaxSpotInstanceCountExceeded", "VcpuLimitExceeded", CodeUnfulfillable, "Unsupported",
		CodeNoAddresses, "MaxFleetCountExceeded", "ReservationCapacityExceeded", "InsufficientHostCapacity",
		"InsufficientCapacityOnHost", "InstanceLimitExceeded", "SpotMaxPriceTooLow", "InsufficientCapacity",
		// Nobody may use spot in this account yet: as good as none to be had.
		"AuthFailure.ServiceLinkedRoleCreationNotPermitted":
		return true
	}
	return false
}

// IsTemplateNotFound says whether a code means that the launch template is not there.
func IsTemplateNotFound(code string) bool {
	return strings.HasPrefix(code, "InvalidLaunchTemplateName.NotFound") || strings.HasPrefix(code, "InvalidLaunchTemplateId.NotFound")
}

func IsThrottled(code string) bool {
	switch code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled", "RequestThrottledException",
		"TooManyRequestsException", "EC2ThrottledException", "SlowDown", "PriorRequestNotComplete", "BandwidthLimitExceeded",
		"RequestThrottledExceptionError", "ProvisionedThroughputExceededException", "TransactionInProgressException":
		return true
	}
	return false
}

func IsDenied(code string) bool {
	switch code {
	case "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "AuthFailure", "UnauthorizedAccess", "InvalidClientTokenId",
		"UnrecognizedClientException", "SignatureDoesNotMatch", "OptInRequired", "ExpiredToken", "ExpiredTokenException", "Blocked", "PendingVerification":
		return true
	}
	return false
}

// ErrorCode is the code that a service answered, empty for any other error.
func ErrorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// HadNoEffect says whether an error is an answer by which a call has changed nothing, and never will.
func HadNoEffect(err error) bool {
	var res *smithyhttp.ResponseError
	return ErrorCode(err) != "" && errors.As(err, &res) && res.HTTPStatusCode() < 500
}

// WasRejected says whether a request certainly had no effect: the service answered that what it asks for won't do. Any answer of 500 and above,
// and one that came too late, may hide an instance.
func WasRejected(err error, code string) bool {
	var res *smithyhttp.ResponseError
	return code != "" && !IsThrottled(code) && !IsDenied(code) && code != "RequestExpired" && !strings.HasPrefix(code, "RequestTimeout") &&
		errors.As(err, &res) && res.HTTPStatusCode() < 500
}

// ClassifyError classifies what a call answered.
func ClassifyError(ctx context.Context, op, object string, err error) error {
	if err == nil {
		return nil
	}
	var known *cloud.Error
	if errors.As(err, &known) {
		named := *known
		named.Op, named.Object = op, object
		return &named
	}
	if ctx.Err() != nil {
		return &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: ctx.Err()}
	}
	out := &cloud.Error{Kind: cloud.Unknown, Op: op, Object: object, Err: ReadableError(err)}
	switch code := ErrorCode(err); {
	case IsThrottled(code):
		out.Kind, out.After = cloud.Throttled, retryDelay(err)
	case IsDenied(code):
		out.Kind = cloud.Denied
	case code == CodeInstanceUnknown, code == CodeInstanceBad:
		out.Kind = cloud.NotFound
	}
	return out
}

// retryDelay is the pause that an answer asks for.
func retryDelay(err error) time.Duration {
	var res *smithyhttp.ResponseError
	if errors.As(err, &res) && res.HTTPResponse() != nil {
		h := res.HTTPResponse().Header
		if ms, err := strconv.ParseInt(h.Get("X-Amz-Retry-After"), 10, 64); err == nil && ms > 0 {
			return time.Duration(ms) * time.Millisecond
		}
		if s, err := strconv.ParseInt(h.Get("Retry-After"), 10, 64); err == nil && s > 0 {
			return time.Duration(s) * time.Second
		}
	}
	return DefaultThrottleDelay
}

func NotReadyError(op, object, format string, args ...any) error {
	return &cloud.Error{Kind: cloud.NotReady, Op: op, Object: object, Err: fmt.Errorf(format, args...)}
}

// ExplainDenied says what has to be mended where a call is not allowed.
func ExplainDenied(what string, err error) error {
	if IsDenied(ErrorCode(err)) {
		return &cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("%s: %w; allow the call in the controller's IAM policy", what, ReadableError(err))}
	}
	return err
}

// ReadableError is an error as a person wants to read it: the call, the code, what the service says.
func ReadableError(err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	name := api.ErrorCode()
	var op *smithy.OperationError
	if errors.As(err, &op) {
		name = op.Service() + " " + op.Operation() + ": " + name
	}
	return &summarizedError{fmt.Sprintf("%s: %s", name, api.ErrorMessage()), err}
}

type summarizedError struct {
	text  string
	cause error
}

func (e *summarizedError) Error() string { return e.text }

func (e *summarizedError) Unwrap() error { return e.cause }

// UnresolvedError is what a person has to mend.
type UnresolvedError struct{ Reason, Text string }

func (e *UnresolvedError) Error() string { return e.Text }

func NewUnresolvedError(reason, format string, args ...any) error {
	return &UnresolvedError{reason, fmt.Sprintf(format, args...)}
}
