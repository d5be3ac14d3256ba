/**
 * The dashboards of the machine's page: named arrangements of cards, kept on the machine for everybody who uses its page.
 *
 * Owns their file, `<home>/dashboards/<machine part>.json`. A dashboard names resources and starts nothing, so whoever may call
 * the machine may change it. The number and the size of dashboards are bounded, and so are the changes that wait.
 */

import { dirname } from "node:path";
import type { ReadFiles, WriteFiles } from "../../base/files/files.ts";
import { CallerTurns, type TurnLimits } from "../../base/async/turns.ts";
import type { Clock } from "../../base/clock.ts";
import { chainOf, SvcError } from "../../base/error.ts";
import { isObject } from "../../base/schema/schema.ts";

export interface DashboardCard {
  /** `rdk:component:motor/motor1` */
  readonly id: string;
  readonly isWide: boolean;
}

export interface Dashboard {
  readonly name: string;
  readonly cards: readonly DashboardCard[];
}

const DASHBOARDS_MAX = 32;
const CARDS_MAX = 40;
const NAME_CHARS_MAX = 60;
const ID_CHARS_MAX = 300;
const FILE_BYTES_MAX = 1_000_000;
/** One change after another; those that wait for the disk: of all callers, and of one. */
const TURNS: TurnLimits = {
  turnsMax: 1,
  turnsOfGroupMax: 1,
  waiting: [64, 8, 8],
  what: "changes of dashboards",
};

/** Who changes something: the same for all calls of one caller. */
export interface DashboardCaller {
  readonly caller: string;
  readonly signal?: AbortSignal;
}

export class DashboardStore {
  readonly #turns: CallerTurns;

  constructor(
    private readonly path: string,
    private readonly host: ReadFiles & WriteFiles,
    clock: Clock,
  ) {
    this.#turns = new CallerTurns(TURNS, clock);
  }

  /** In the order in which they were added. */
  async list(): Promise<readonly Dashboard[]> {
    const { host, path } = this;
    const bytes = await host.fileSize(path);
    if (bytes === undefined) return [];
    try {
      if (bytes > FILE_BYTES_MAX) throw new SvcError("data_loss", `it has ${bytes} bytes`);
      return dashboardsOf(JSON.parse(await host.readTextFile(path)));
    } catch (error) {
      throw new SvcError(
        "failed_precondition",
        `cannot read the dashboards in ${path}; mend the file or remove it: ${chainOf(error)}`,
      );
    }
  }

  /** Adds the dashboard, or replaces the one of its name; `formerName` is replaced where it stands. */
  set(dashboard: Dashboard, formerName: string, by: DashboardCaller): Promise<void> {
    const checked = checkedDashboard(dashboard);
    return this.#change(by, (present) => {
      const isNamed = ({ name }: Dashboard) => name === checked.name;
      if (formerName && formerName !== checked.name && present.some(isNamed)) {
        throw new SvcError("already_exists", `there is another dashboard "${checked.name}"`);
      }
      const at = present.findIndex(({ name }) => name === (formerName || checked.name));
      if (at >= 0) return present.with(at, checked);
      if (present.length >= DASHBOARDS_MAX) {
        throw new SvcError(
          "resource_exhausted",
          `there are ${DASHBOARDS_MAX} dashboards already: delete one first`,
        );
      }
      return [...present, checked];
    });
  }

  /** Throws `not_found` if there is none. */
  delete(wanted: string, by: DashboardCaller): Promise<void> {
    return this.#change(by, (present) => {
      const left = present.filter(({ name }) => name !== wanted);
      if (left.length < present.length) return left;
      throw new SvcError("not_found", `there is no dashboard "${wanted.slice(0, NAME_CHARS_MAX)}"`);
    });
  }

  async #change(
    { caller, signal }: DashboardCaller,
    next: (present: readonly Dashboard[]) => readonly Dashboard[],
  ): Promise<void> {
    const leave = await this.#turns.enter([caller, ""], signal);
    try {
      const present = await this.list();
      const wanted = next(present);
      const bytesOf = (dashboards: readonly Dashboard[]) =>
        new TextEncoder().encode(`${JSON.stringify({ dashboards }, null, 2)}\n`);
      const bytes = bytesOf(wanted);
      if (bytes.length > FILE_BYTES_MAX) {
        throw new SvcError(
          "resource_exhausted",
          `the dashboards together are larger than ${FILE_BYTES_MAX} bytes`,
        );
      }
      if (equalBytes(bytes, bytesOf(present))) return;
      await this.host.makeFolder(dirname(this.path));
      await this.host.writeFile(this.path, bytes);
    } finally {
      leave();
    }
  }
}

function equalBytes(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

function dashboardsOf(read: unknown): Dashboard[] {
  const found = isObject(read) ? read.dashboards : undefined;
  if (!Array.isArray(found)) throw new SvcError("data_loss", 'wanted an object with a list "dashboards"');
  return found.slice(0, DASHBOARDS_MAX).map((one) => checkedDashboard(one));
}

/** Only what belongs to a dashboard. Throws `invalid_argument`. */
function checkedDashboard(dashboard: unknown): Dashboard {
  const wrong = (what: string) => new SvcError("invalid_argument", `a dashboard is unusable: ${what}`);
  if (!isObject(dashboard)) throw wrong("it is no object");

  const { name, cards } = dashboard as { name?: unknown; cards?: unknown };
  const isName = typeof name === "string" && name.trim() === name && !/\p{Cc}/u.test(name);
  if (!isName || name.length === 0 || name.length > NAME_CHARS_MAX) {
    throw wrong(
      `its name must have 1 to ${NAME_CHARS_MAX} characters, none of them a control character, no space at an end`,
    );
  }
  if (!Array.isArray(cards)) throw wrong(`"${name}" has no list of cards`);
  if (cards.length > CARDS_MAX) throw wrong(`"${name}" has ${cards.length} cards, the most are ${CARDS_MAX}`);

  const checked = cards.map((card: unknown): DashboardCard => {
    const { id, isWide } = isObject(card) ? card as { id?: unknown; isWide?: unknown } : {};
    if (typeof id !== "string" || id === "" || id.length > ID_CHARS_MAX) {
      throw wrong(`a card of "${name}" has no usable id`);
    }
    return { id, isWide: isWide === true };
  });
  if (new Set(checked.map(({ id }) => id)).size < checked.length) {
    throw wrong(`"${name}" has a card twice`);
  }

  return { name, cards: checked };
}
