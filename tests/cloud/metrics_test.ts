/**
 * The metrics page as Prometheus reads it: promtool finds nothing to say, the real Prometheus scrapes it, and the board of
 * docs/grafana asks for figures that exist.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { programHere } from "../support/programs_here.ts";
import { needingTest } from "../support/needing.ts";
import { until } from "../support/until.ts";
import { serveCloud, svcCloud } from "./program.ts";

needingTest(
  "Prometheus takes the metrics page, and the board asks for what is there",
  programHere("prometheus"),
  async () => {
    const folder = await Deno.makeTempDir({ prefix: "svc-metrics-" });
    const data = `${folder}/data`;
    await svcCloud("init", "--data", data);
    await svcCloud("machine", "create", 'odd "name\\', "--data", data);
    const cloud = await serveCloud(["--data", data]);
    const key = (await Deno.readTextFile(`${data}/metrics.key`)).trim();
    const get = async (accept: string) => {
      const headers = { authorization: `Bearer ${key}`, accept };
      return await (await fetch(`${cloud.url}/metrics`, { headers })).text();
    };
    let prometheus: Deno.ChildProcess | undefined;
    try {
      const promtool = new Deno.Command("promtool", {
        args: ["check", "metrics"],
        stdin: "piped",
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      const writer = promtool.stdin.getWriter();
      await writer.write(new TextEncoder().encode(await get("text/plain")));
      await writer.close();
      const { code, stdout, stderr } = await promtool.output();
      const output = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
      assertEquals([code, output], [0, ""]);

      using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const own = `127.0.0.1:${(listener.addr as Deno.NetAddr).port}`;
      listener.close();
      const { host } = new URL(cloud.url);
      const job = {
        job_name: "svc",
        scrape_interval: "1s",
        authorization: { credentials: key },
        static_configs: [{ targets: [host] }],
      };
      await Deno.writeTextFile(`${folder}/prometheus.yml`, JSON.stringify({ scrape_configs: [job] }));
      const args = [
        `--config.file=${folder}/prometheus.yml`,
        `--storage.tsdb.path=${folder}/tsdb`,
        `--web.listen-address=${own}`,
      ];
      prometheus = new Deno.Command("prometheus", { args, stdout: "null", stderr: "null" }).spawn();
      const names = async (): Promise<string[]> => {
        const answer = await fetch(`http://${own}/api/v1/label/__name__/values`).catch(() => undefined);
        const text = await answer?.text() ?? "{}";
        return answer?.ok ? JSON.parse(text).data : [];
      };
      let known: string[] = [];
      await until(async () => (known = await names()).includes("svc_cloud_parts_in_state"));
      const board = await Deno.readTextFile(new URL("../../docs/grafana/svc-cloud.json", import.meta.url));
      const page = await get("application/openmetrics-text");
      for (const [name] of board.matchAll(/svc_cloud_\w+/g)) {
        // A family without a sample is in the page, not in the database.
        const family = name.replace(/_(?:total|bucket)$/, "");
        assert(known.includes(name) || page.includes(`# TYPE ${family} `), name);
      }
      assertStringIncludes(page, 'svc_cloud_parts_in_state{state="never"} 2');
      const queues = [...page.matchAll(/^svc_cloud_queue_length\{queue="(\w+)"\} \d+$/gm)];
      assertEquals(queues.map(([, name]) => name), [
        ...["calls", "database_reads", "database_writes", "config_checks"],
        ...["trigger_notifications", "trigger_events", "sequence_exports", "training_jobs"],
      ]);
    } finally {
      prometheus?.kill("SIGTERM");
      await prometheus?.status;
      assertEquals(await cloud.stop(), 0);
      await Deno.remove(folder, { recursive: true });
    }
  },
);
