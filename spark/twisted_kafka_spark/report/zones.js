(function () {
  var zones = ["UTC"], own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (own && own !== "UTC") zones.push(own);
  (Intl.supportedValuesOf ? Intl.supportedValuesOf("timeZone") : []).forEach(function (zone) {
    if (zones.indexOf(zone) < 0) zones.push(zone);
  });
  var choice = document.getElementById("zone");
  zones.forEach(function (zone) { choice.add(new Option(zone === own ? zone + " (here)" : zone, zone)); });
  choice.disabled = false;
  function shown(form, zone) {
    return new Intl.DateTimeFormat("sv-SE", form === "date"
      ? { timeZone: zone, year: "numeric", month: "2-digit", day: "2-digit" }
      : { timeZone: zone, hour: "2-digit", minute: "2-digit", hour12: false });
  }
  choice.addEventListener("change", function () {
    var forms = { date: shown("date", choice.value), time: shown("time", choice.value) };
    document.querySelectorAll("time[data-form]").forEach(function (each) {
      each.textContent = forms[each.dataset.form].format(new Date(each.dateTime));
    });
    document.querySelectorAll("svg text[data-at]").forEach(function (each) {
      each.textContent = forms.time.format(new Date(each.dataset.at));
    });
  });
})();
