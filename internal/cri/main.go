// Program cri is a kubelet's side of the container runtime interface, as far as tests need it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const usage = `cri SOCKET pod NAMESPACE NAME CGROUP SHARED: start a pod on the host's network; print its id
cri SOCKET run POD NAME IMAGE MOUNT WORD…: start a container in it; print its id
cri SOCKET exec CONTAINER SECONDS WORD…: run a command, ended by the runtime after that time
cri SOCKET remove POD`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cri:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New(usage)
	}
	connection, err := grpc.NewClient("unix://"+args[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	runtime := cri.NewRuntimeServiceClient(connection)
	verb, args := args[1], args[2:]
	switch {
	case verb == "pod" && len(args) == 4:
		return pod(ctx, runtime, args)
	case verb == "run" && len(args) > 4:
		return container(ctx, runtime, args)
	case verb == "exec" && len(args) > 2:
		return execute(ctx, runtime, args)
	case verb == "remove" && len(args) == 1:
		_, err := runtime.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: args[0]})
		return err
	}
	return errors.New(usage)
}

// sandbox is the configuration of a pod, which its containers are started with, too.
func sandbox(namespace, name, cgroup, shared string) *cri.PodSandboxConfig {
	namespaces := &cri.NamespaceOption{Network: cri.NamespaceMode_NODE, Pid: cri.NamespaceMode_CONTAINER}
	if shared == "shared" {
		namespaces.Pid = cri.NamespaceMode_POD
	}
	return &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Namespace: namespace, Name: name, Uid: namespace + "-" + name},
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    cgroup,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: namespaces},
		},
		Labels: map[string]string{"cgroup": cgroup, "shared": shared},
	}
}

func pod(ctx context.Context, runtime cri.RuntimeServiceClient, args []string) error {
	r, err := runtime.RunPodSandbox(ctx,
		&cri.RunPodSandboxRequest{Config: sandbox(args[0], args[1], args[2], args[3])})
	if err != nil {
		return err
	}
	fmt.Println(r.PodSandboxId)
	return nil
}

func container(ctx context.Context, runtime cri.RuntimeServiceClient, args []string) error {
	status, err := runtime.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: args[0]})
	if err != nil {
		return err
	}
	of, labels := status.Status.Metadata, status.Status.Labels
	config := sandbox(of.Namespace, of.Name, labels["cgroup"], labels["shared"])
	made, err := runtime.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: args[0], SandboxConfig: config, Config: &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: args[1]}, Image: &cri.ImageSpec{Image: args[2]},
		Mounts: []*cri.Mount{{HostPath: args[3], ContainerPath: args[3]}}, Command: args[4:],
		Envs: []*cri.KeyValue{{Key: "LINEAGE_EXEC", Value: []byte("end")}},
		Linux: &cri.LinuxContainerConfig{SecurityContext: &cri.LinuxContainerSecurityContext{
			NamespaceOptions: config.Linux.SecurityContext.NamespaceOptions}},
	}})
	if err != nil {
		return err
	}
	if _, err = runtime.StartContainer(ctx,
		&cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		return err
	}
	fmt.Println(made.ContainerId)
	return nil
}

func execute(ctx context.Context, runtime cri.RuntimeServiceClient, args []string) error {
	seconds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("seconds: %w", err)
	}
	r, err := runtime.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: args[0], Timeout: seconds, Cmd: args[2:]})
	if err != nil {
		return err
	}
	fmt.Printf("%d %s", r.ExitCode, r.Stdout)
	return nil
}
