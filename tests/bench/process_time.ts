/** The processor time of processes, from /proc. */

/** The processor time so far of all threads of a process, and of that and what it has started. */
export function cpuMsOf(pid: number): { own: number; all: number } {
  let [own, started] = [0, 0];
  for (const { name: thread } of Deno.readDirSync(`/proc/${pid}/task`)) {
    const of = `/proc/${pid}/task/${thread}`;
    own += Number(Deno.readTextFileSync(`${of}/schedstat`).split(" ")[0]) / 1e6;
    for (const child of Deno.readTextFileSync(`${of}/children`).split(" ").filter(Boolean)) {
      started += cpuMsOf(Number(child)).all;
    }
  }
  return { own, all: own + started };
}
