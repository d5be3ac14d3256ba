/**
 * An interview at the terminal: questions with proposals, asked again until the answer fits.
 */

import { SvcError } from "../../../lib/base/error.ts";
import { didYouMean } from "../../../lib/base/schema/suggest.ts";

/** A script that answers with nonsense ends. */
const TRIES_MAX = 20;

export interface InterviewParts {
  readonly ask: (question: string) => string | undefined;
  /** Prints a remark for the person. */
  readonly tell: (text: string) => void;
  /** Takes every proposal without asking. */
  readonly agrees: boolean;
}

export class Interview {
  constructor(private readonly parts: InterviewParts) {}

  tell(text: string): void {
    this.parts.tell(text);
  }

  /** An empty answer takes the proposal. `problem` says why an answer does not fit. */
  text(question: string, proposal: string, problem: (answer: string) => string | undefined): string {
    if (this.parts.agrees) return proposal;
    const shown = proposal === "" ? question : `${question} [${proposal}]`;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const given = this.parts.ask(`${shown}: `);
      if (given === undefined) {
        throw new SvcError("aborted", "the input has ended before the last question; nothing was written");
      }
      const answer = given.trim() || proposal;
      const found = problem(answer);
      if (found === undefined) return answer;
      this.tell(found);
    }
    throw new SvcError("aborted", `no answer to "${question}" fits; nothing was written`);
  }

  yes(question: string, proposal: boolean): boolean {
    const answer = this.text(`${question} (y/n)`, proposal ? "y" : "n", (given) => {
      return /^(y|yes|n|no)$/i.test(given) ? undefined : `found "${given}", wanted y or n`;
    });
    return answer.toLowerCase().startsWith("y");
  }

  /** One of `words`; the empty answer too, if the proposal is empty. */
  choice(question: string, proposal: string, words: readonly string[]): string {
    return this.text(question, proposal, (given) => {
      if (given === proposal || words.includes(given)) return undefined;
      return `"${given}" is none of ${words.join(", ")}${didYouMean(given, words)}`;
    });
  }
}
