package workflows

import (
	"fmt"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/promo"
)

// codeStopped marks work that ended because its run or its group was cancelled. It never leaves this package.
const codeStopped promo.Code = "Stopped"

func stopped() *promo.Error { return &promo.Error{Code: codeStopped, Msg: "stopped"} }

func isStopped(err *promo.Error) bool { return err != nil && err.Code == codeStopped }

// fault turns what a call returned into the domain's error; a cancellation becomes "stopped".
func fault(err error) *promo.Error {
	if err == nil {
		return nil
	}
	if temporal.IsCanceledError(err) {
		return stopped()
	}
	return contract.Unwire(err)
}

func errorf(code promo.Code, format string, args ...any) *promo.Error {
	return &promo.Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// refuse is an update's refusal: the code travels as the error's type.
func refuse(code promo.Code, format string, args ...any) error {
	return contract.Wire(errorf(code, format, args...))
}

// detached is a context that a cancellation of ctx does not reach, for clean-up and for waiting.
func detached(ctx workflow.Context) workflow.Context {
	d, _ := workflow.NewDisconnectedContext(ctx)
	return d
}
