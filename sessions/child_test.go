package sessions

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantscope/kernels"
)

// Child processes are this test program, told by its environment what to do.
const childEnv = "QUANTSCOPE_TEST_CHILD"

// The job of children: enough work that a kill finds it going on.
const (
	childTensors  = 400
	childVariants = "f1,f2,f3"
)

// childJob is fakeJob with measurements that take about a millisecond.
func childJob() *Job {
	job, _ := fakeJob(childTensors)
	parse := job.Parse
	job.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		measure := q.Measure
		q.Measure = func(m kernels.Matrix) (Measurement, error) {
			for range 100 {
				if _, err := measure(m); err != nil {
					return Measurement{}, err
				}
			}
			return measure(m)
		}
		return q, err
	}
	return job
}

// followedJob is childJob with a recipe.
func followedJob() *Job {
	job := childJob()
	followed(job)
	return job
}

// childVerbs are requests of one system's tests.
var childVerbs = map[string]func(path string) error{}

// child does what is asked of a child process and returns its exit code.
func child(what string) int {
	verb, path, _ := strings.Cut(what, " ")
	var err error
	switch verb {
	case "run":
		err = childRun(path, childJob(), strings.Split(childVariants, ",")...)
	case "recipe":
		err = childRun(path, followedJob(), "recipe:mix")
	case "hold", "recipehold": // a number of tensors, then the path
		var tensors int
		if _, err = fmt.Sscanf(path, "%d ", &tensors); err != nil {
			break
		}
		_, path, _ = strings.Cut(path, " ")
		job, variants := childJob(), strings.Split(childVariants, ",")
		if verb == "recipehold" {
			job, variants = followedJob(), []string{"recipe:mix"}
		}
		job.Source.(*fakeSource).read = func(i int) error {
			if i < tensors {
				return nil
			}
			_, err := os.Stdin.Read(make([]byte, 1)) // until the parent lets go
			return err
		}
		err = childRun(path, job, variants...)
	default:
		f := childVerbs[verb]
		if f == nil {
			err = fmt.Errorf("unknown request %q", what)
			break
		}
		err = f(path)
	}
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// hasty is a clock whose timers are early: a child commits so often that many
// kills come in the middle of it.
type hasty struct{ realClock }

func (hasty) After(d time.Duration) <-chan time.Time { return realClock{}.After(d / 20) }

// childRun runs the job and prints how many measurements are shown, a line a
// batch.
func childRun(path string, job *Job, variants ...string) error {
	ctx := context.Background()
	l, err := StartJob(ctx, job, Options{Session: path, Variants: variants, Threads: 2, Clock: hasty{}})
	if err != nil {
		return err
	}
	st := l.Snapshot()
	for {
		fmt.Println("done", st.Progress.Done)
		switch st.Progress.State {
		case RunFinished, RunStopped, RunCancelled:
			_, err := l.Wait(ctx)
			if closeErr := l.Close(); err == nil {
				err = closeErr
			}
			return err
		}
		b, err := l.Next(ctx, 2*time.Millisecond)
		if err != nil {
			return err
		}
		st.Apply(b)
	}
}

// process is a running child.
type process struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
	stdin io.WriteCloser
}

// hold asks a child to run and to stand still after so many tensors.
func hold(tensors int, path string) string { return fmt.Sprintf("hold %d %s", tensors, path) }

// startChild starts a child. It is killed at the latest when the test ends.
func startChild(t *testing.T, what string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+what)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd, bufio.NewScanner(out), in}
	t.Cleanup(func() { _ = p.kill() })
	return p
}

// kill ends the child as a power cut would, and waits for that.
func (p *process) kill() error {
	if p.cmd.ProcessState != nil {
		return nil
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	return p.cmd.Wait()
}

// output waits for the child to end and returns what it printed.
func (p *process) output() (string, error) {
	var b strings.Builder
	for p.lines.Scan() {
		b.WriteString(p.lines.Text() + "\n")
	}
	return b.String(), p.cmd.Wait()
}

// until reads until so many measurements are shown; false when the child ended
// before.
func (p *process) until(done int) bool {
	for p.lines.Scan() {
		word, n, _ := strings.Cut(p.lines.Text(), " ")
		if k, err := strconv.Atoi(n); word == "done" && err == nil && k >= done {
			return true
		}
	}
	return false
}

// copySession copies a session file, without what stands beside it.
func copySession(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy.qscope")
	if err := copyFile(to, from); err != nil {
		t.Fatal(err)
	}
	return to
}
