/** nginx with some servers, in a folder of a test. */

/** Starts nginx with `servers`, as they stand in its `http` block. `folder` must exist. */
export async function startNginx(folder: string, servers: string): Promise<Deno.ChildProcess> {
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((one) => `${one}_temp_path ${folder}/${one};`).join("\n");
  const user = Deno.uid() === 0 ? "user root;" : "";
  const conf = `${user} daemon off; pid ${folder}/nginx.pid; error_log stderr warn; worker_processes 1;
    events { worker_connections 256; }
    http { access_log off; ${paths}\n${servers} }`;
  await Deno.writeTextFile(`${folder}/nginx.conf`, conf);
  return new Deno.Command("nginx", { args: ["-c", `${folder}/nginx.conf`, "-e", "stderr"] }).spawn();
}
