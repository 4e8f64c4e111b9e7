// The line below every view that names the services, where several share one database: which leads, and which stand by.
import { complaintOf, get } from "./api.js";
import { el } from "./dom.js";
import { poll } from "./poll.js";
import { onSessionChange, who } from "./session.js";
import { standingBy } from "./standing_by.js";

const POLL_MS = 10000;

export function servicesText({ services, term }) {
  if (services.length < 2) return "";
  const leader = services.find((service) => service.leads);
  const others = services.filter((service) => !service.leads).map((service) => service.address);
  return `${leader.address} leads, in term ${term}; ${others.join(", ")} ${others.length === 1 ? "stands" : "stand"} by.`;
}

export function startServicesLine(line) {
  const show = (text) => {
    line.hidden = text === "";
    line.replaceChildren(...(text === "" ? [] : [el("span", {}, text)]));
  };
  const polling = poll(async () => {
    if (who() === null || standingBy() !== null) return show(""); // a service that stands by has a bar that says who leads
    try {
      show(servicesText(await get("services")));
    } catch (problem) {
      complaintOf(problem);
      show("");
    }
  }, POLL_MS);
  onSessionChange(() => polling.now());
}
