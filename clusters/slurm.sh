#!/bin/bash
# A study on a SLURM cluster: Ray over the nodes of one job, and the search in it.
#
#   sbatch --nodes 2 --gpus-per-node 4 clusters/slurm.sh mine --dataset tinyimagenet --data-root /shared/tiny-imagenet-200.zip
#   tail -f slurm-JOB.out                            # the search
#   python -m tune_cd.report results --study mine    # on the login node, while it runs or afterwards
#   scancel JOB                                      # ends it; the same `sbatch` goes on
#
# The first argument is the study, the others are options of tune_cd.run. Start it in a folder that all nodes see, with the
# virtual environment activated; its results are in that folder's `results`. Two minutes before the time is up the search
# ends in good order, and the job queues again and goes on, as one that was preempted does. For your own Tuner, put
# `python mine.py` in the search's place.

#SBATCH --job-name=tune-cd
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append

set -uo pipefail
study=${1:?the name of the study, then options of tune_cd.run}
port=$((20000 + SLURM_JOB_ID % 10000 * 2)) # it and the next are the job's own, as jobs may share a node
RAY_ADDRESS=$(hostname):$port
RAY_AUTH_TOKEN=$(od -An -tx1 -N32 /dev/urandom | tr -d ' \n') # whoever reaches the port must have it
export port RAY_ADDRESS RAY_AUTH_TOKEN RAY_AUTH_MODE=token

srun --overlap --kill-on-bad-exit --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" bash -c '
  options="--num-cpus=${SLURM_CPUS_PER_TASK:-1} --num-gpus=${SLURM_GPUS_ON_NODE:-0} --disable-usage-stats
    --min-worker-port=0 --max-worker-port=0 --dashboard-agent-listen-port=0"
  if [ "$SLURM_NODEID" = 0 ]; then
    exec ray start --block $options --head --port=$port --ray-client-server-port=$((port + 1)) --include-dashboard=false
  fi
  until ray health-check; do sleep 2; done
  exec ray start --block $options --address="$RAY_ADDRESS"' &> "ray-$SLURM_JOB_ID.log" &
nodes=$!
until python -c "import os, ray; ray.init(); exit(len(ray.nodes()) < int(os.environ['SLURM_JOB_NUM_NODES']))"; do
  sleep 2
done &> /dev/null &
waiting=$!
wait -n # for all nodes, or a Ray that has ended
kill -0 $nodes 2> /dev/null || { kill $waiting; echo "Ray did not start: see ray-$SLURM_JOB_ID.log" >&2; exit 1; }

[ -e "results/studies/$study/study.json" ] && set -- "$@" --resume
python -m tune_cd.run --address "$RAY_ADDRESS" --results results --study "$@" &
search=$! again=
trap 'kill -TERM $search' TERM
trap 'kill -TERM $search; again=yes' USR1
while wait $search; status=$?; kill -0 $search 2> /dev/null; do :; done # a signal ends `wait` before the search
[ -n "$again" ] && [ $status != 0 ] && scontrol requeue "$SLURM_JOB_ID"
kill $nodes
exit $status
