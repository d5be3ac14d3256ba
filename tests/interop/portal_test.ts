/**
 * The portal in a real browser of a phone's size, without JavaScript. `SVC_SCREENSHOTS=FOLDER` saves screenshots.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { SystemClock } from "../../lib/base/clock.ts";
import { Logs } from "../../lib/base/log/log.ts";
import { type ProvisioningSubmission, ProvisioningSubmissions } from "../../lib/agent/portal/submissions.ts";
import { openPortal } from "../../lib/agent/portal/portal.ts";
import { needingTest } from "../support/needing.ts";
import { browserProgram, nodeFolder, run } from "./programs.ts";

const CREDENTIALS = JSON.stringify({
  cloud: { id: "part", app_address: "https://cloud:8090", api_key: { id: "key", key: "s3cr3t" } },
});

needingTest(
  "the portal sets up a device from a phone's browser without JavaScript",
  await browserProgram(),
  async (chromium) => {
    const clock = new SystemClock();
    const taken: ProvisioningSubmission[] = [];
    const network = { security: "WPA2", connected: false, lastError: "" };
    const submissions = new ProvisioningSubmissions(clock, () => ({
      manufacturer: "Acme",
      model: "rover",
      fragmentId: "",
      agentVersion: "1.0.0",
      configured: false,
      online: false,
      networks: [{ ...network, ssid: "shop", signal: 80 }, { ...network, ssid: "<b>x", signal: 9 }],
    }), (handedIn) => void taken.push(handedIn));
    const logger = new Logs(clock, []).logger("portal");
    const port = await openPortal({ submissions, clock, logger, bind: { host: "127.0.0.1", port: 0 } });
    const kept = Deno.env.get("SVC_SCREENSHOTS");
    const folder = kept ?? await Deno.makeTempDir();
    try {
      const program = [
        "node",
        `${await nodeFolder()}/portal_tour.mjs`,
        `http://127.0.0.1:${port.port}`,
        chromium,
        folder,
      ];
      const { code, stdout, stderr } = await run(program, { CREDENTIALS });
      assertEquals(code, 0, stderr);
      const saw = JSON.parse(stdout);
      assertEquals([saw.url, saw.title], [`http://127.0.0.1:${port.port}/`, "Set up Acme rover"]);
      assertEquals(saw.options, ["Choose a network", "shop (80 %, WPA2)", "<b>x (9 %, WPA2)"]);
      assertStringIncludes(saw.wrong, "8 to 63 characters");
      assertStringIncludes(saw.joining, "The device now joins shop.");
      assertEquals(
        taken.map((
          { network, credentials },
        ) => [network?.ssid, network?.psk.reveal(), credentials?.reveal()]),
        [
          ["shop", "12345678", CREDENTIALS],
        ],
      );
      for (const name of ["form", "wrong", "joining"]) {
        assertEquals((await Deno.stat(`${folder}/${name}.png`)).isFile, true);
      }
    } finally {
      await port.close(0);
      if (!kept) await Deno.remove(folder, { recursive: true });
    }
  },
);
