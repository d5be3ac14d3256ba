/** Files and texts that people write: configurations, fragments, schedules, versions, models of kinematics. */

import { MODELS } from "../../../drivers/mod.ts";
import { APIS } from "../../../lib/api/mod.ts";
import { parseJsonc } from "../../../lib/base/schema/jsonc.ts";
import { parseDurationMs } from "../../../lib/base/schema/schema.ts";
import { logPattern } from "../../../lib/base/log/log.ts";
import { parseRange, parseVersion } from "../../../lib/base/semver.ts";
import { parseXml } from "../../../lib/base/xml.ts";
import type { FindFragments } from "../../../lib/cloud/config/resolution.ts";
import { workOn } from "../../../lib/cloud/config/config_jobs.ts";
import { forwardKinematics, parseKinematics } from "../../../lib/geometry/kinematics.ts";
import { checkConfig } from "../../../lib/machine/config/check.ts";
import { parseSchedule } from "../../../lib/machine/config/schedule.ts";
import { parseApi, parseModel } from "../../../lib/resource/name.ts";
import { Registry } from "../../../lib/resource/registry.ts";
import { parseCredentials } from "../../../lib/agent/settings/credentials.ts";
import { bytesOf, type Target, textIn } from "../target.ts";

const registry = new Registry(APIS, MODELS);
const env = (name: string) => name === "HOME" ? "/root" : undefined;
const LIMITS = {
  fragmentsPerConfiguration: 20,
  valuesPerConfiguration: 10_000,
  lettersPerConfiguration: 100_000,
};
const WORDS = [
  '"api":',
  '"fragments":',
  '"fragment_mods":',
  '"$variable":{"name":"x"}',
  '"$set":{"components.a.attributes.b":1}',
  '"depends_on":',
  '"frame":',
  "${HOME}",
  "${packages.a}",
  "${environment.X}",
  "/*",
  "//",
  "\\ud800",
  "__proto__",
  "constructor",
  "1e999",
  "[[[[[[[[",
  '{"a":',
];

const CONFIG = {
  components: [
    {
      name: "board1",
      api: "rdk:component:board",
      model: "fake",
      attributes: { analogs: [{ name: "a", pin: "1" }] },
    },
    {
      name: "motor1",
      api: "rdk:component:motor",
      model: "gpio",
      depends_on: ["board1"],
      attributes: { board: "board1", pins: { dir: "11", pwm: "${environment.PIN}" }, max_rpm: 100 },
      frame: { parent: "world", translation: { x: 1, y: 2, z: 3 } },
      service_configs: [{ type: "data_manager", attributes: { capture_methods: [] } }],
    },
  ],
  services: [{
    name: "v",
    api: "rdk:service:vision",
    model: "obstacles_depth",
    attributes: { clustering_radius: 2 },
  }],
  modules: [{ name: "m", type: "local", executable_path: "/bin/true" }],
  remotes: [{ name: "r", address: "host:8080", auth: { type: "api-key" } }],
  network: { bind_address: "localhost:8080" },
  jobs: [{ name: "j", schedule: "5s", resource: "v", method: "GetProperties" }],
  log: [{ pattern: "rdk.*", level: "debug" }],
};

const FRAGMENT = {
  components: [{
    name: "a",
    api: "rdk:component:motor",
    model: "fake",
    attributes: { max_rpm: { $variable: { name: "x" } } },
  }],
};
const WITH_FRAGMENTS = {
  fragments: ["f", { id: "g", prefix: "p", variables: { x: 3 } }],
  fragment_mods: [{ fragment_id: "f", mods: [{ $set: { "components.a.attributes.max_rpm": 7 } }] }],
};

const SVA = {
  name: "arm",
  kinematic_param_type: "SVA",
  links: [
    { id: "base", parent: "world", translation: { x: 0, y: 0, z: 100 } },
    { id: "upper", parent: "j1", translation: { x: 50, y: 0, z: 0 }, geometry: { r: 10, l: 60 } },
  ],
  joints: [{ id: "j1", type: "revolute", parent: "base", axis: { x: 0, y: 0, z: 1 }, max: 90, min: -90 }],
};
const URDF =
  `<?xml version="1.0"?><robot name="arm"><link name="base"><collision><origin xyz="0 0 0.1" rpy="0 0 0"/>
<geometry><box size="0.1 0.1 0.2"/></geometry></collision></link><link name="upper"/><joint name="j1" type="revolute">
<parent link="base"/><child link="upper"/><origin xyz="0 0 0.1" rpy="0 1.57 0"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1"/><mimic joint="j1" multiplier="2"/></joint></robot>`;

async function place(bytes: Uint8Array, format: "sva" | "urdf"): Promise<void> {
  const model = await parseKinematics(bytes, format, "arm");
  forwardKinematics(model, model.joints.map(() => 0));
}

export const CONFIG_TARGETS: readonly Target[] = [
  {
    name: "config/jsonc",
    covers: ["base/schema/jsonc.ts"],
    samples: () => [bytesOf('{"a": [1, -2.5e3, "b\\u00e9\\n", null, true], // c\n /* d */ "e": "${HOME}",}')],
    words: WORDS,
    read: (bytes) =>
      parseJsonc(bytes, { file: "f", variable: env, tolerant: true, problems: [], spans: new Map() }),
  },
  {
    name: "config/machine",
    covers: ["machine/config/", "base/schema/", "resource/", "drivers/"],
    samples: () => [bytesOf(JSON.stringify(CONFIG)), bytesOf(JSON.stringify(CONFIG, null, 1))],
    words: WORDS,
    read: (bytes) => checkConfig(bytes, "machine.json", registry, env),
  },
  {
    name: "config/fragments",
    covers: ["cloud/config/"],
    samples: () => [WITH_FRAGMENTS, FRAGMENT].map((one) => bytesOf(JSON.stringify(one))),
    words: WORDS,
    // A fragment that is itself hostile.
    read: (bytes) => {
      const find: FindFragments = (wanted) => {
        const texts: { [id: string]: string } = { f: JSON.stringify(FRAGMENT), g: textIn(bytes) };
        return Promise.resolve(
          wanted.filter(({ id }) => id in texts).map((one) => ({
            ...one,
            revision: 1,
            own: true,
            letters: texts[one.id].length,
            text: texts[one.id],
          })),
        );
      };
      const job = { kind: "fill" as const, text: textIn(bytes), limits: LIMITS };
      return workOn(job, find, () => Promise.resolve([]));
    },
    refusals: ["invalid_argument", "resource_exhausted", "failed_precondition", "not_found"],
  },
  {
    name: "config/schedule",
    covers: ["machine/config/schedule.ts", "croner"],
    samples: () => ["5s", "*/5 1-3 * * MON", "0 0 1 1 *", "1h2m3.5s", "@daily"].map(bytesOf),
    words: ["@every ", "TZ=", "CRON_TZ=Europe/Berlin ", "L", "#", "?", "1-99"],
    read: (bytes) => {
      parseSchedule(textIn(bytes));
      parseDurationMs(textIn(bytes));
    },
  },
  {
    name: "config/versions",
    covers: ["base/semver.ts"],
    samples: () => ["^1.2.3-rc.1", ">=1.0.0 <2", "~1.2 || x", "1.2.3+build"].map(bytesOf),
    words: ["||", "x", "*", " - "],
    read: (bytes) => {
      parseVersion(textIn(bytes));
      parseRange(textIn(bytes));
    },
  },
  {
    name: "config/log-pattern",
    covers: ["base/log/log.ts"],
    samples: () => ["rdk.(a|b)+", "rdk.resource_manager.*"].map(bytesOf),
    words: ["(.+)+", "\\1", "(?<a>", "\\p{L}"],
    read: (bytes) => logPattern(textIn(bytes)),
    isRefusal: (error) => error instanceof SyntaxError,
  },
  ...[parseApi, parseModel].map((read): Target => ({
    name: read === parseApi ? "config/api" : "config/model",
    covers: ["resource/name.ts"],
    samples: () => ["rdk:component:motor", "acme:demo:lamp", "fake"].map(bytesOf),
    read: (bytes) => read(textIn(bytes)),
  })),
  {
    name: "config/kinematics",
    covers: ["geometry/kinematics.ts", "geometry/schema.ts"],
    samples: () => [bytesOf(JSON.stringify(SVA))],
    read: (bytes) => place(bytes, "sva"),
  },
  {
    name: "config/urdf",
    covers: ["geometry/urdf.ts", "geometry/kinematics.ts", "base/xml.ts"],
    samples: () => [bytesOf(URDF)],
    words: [
      "<!DOCTYPE a [",
      "<!ENTITY",
      "&#x0;",
      "<![CDATA[",
      'type="prismatic"',
      "<mimic",
      "]]>",
      "<joint",
      "</robot>",
    ],
    read: (bytes) => place(bytes, "urdf"),
  },
  {
    name: "config/xml",
    covers: ["base/xml.ts", "xmldom"],
    samples: () => [bytesOf('<?xml version="1.0"?><a b="c">d &amp; <e/><!-- f --></a>')],
    words: ["<!DOCTYPE", "&lt;", "<![CDATA["],
    read: (bytes) => parseXml(textIn(bytes)),
  },
  {
    name: "config/credentials",
    covers: ["agent/settings/credentials.ts"],
    samples: () => [
      bytesOf('{"cloud": {"id": "a", "app_address": "https://host", "api_key": {"id": "b", "key": "c"}}}'),
    ],
    read: (bytes) => parseCredentials(bytes, "/etc/viam.json"),
  },
];
