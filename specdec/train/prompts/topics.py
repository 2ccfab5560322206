"""What the prompts are about: lists of topics, each written to fit a place in a sentence.

The comment over a list shows that place. Entries are separated by semicolons; nothing else is in here.
"""


def listed(text: str) -> list[str]:
    """The entries of a text separated by semicolons; line breaks inside it count as spaces."""
    return [" ".join(entry.split()) for entry in text.split(";") if entry.strip()]


# Explain ___ . What is ___ ?
SCIENCE = listed("""
photosynthesis; plate tectonics; the greenhouse effect; natural selection; nuclear fusion; radioactive decay;
static electricity; the Doppler effect; surface tension; osmosis; the water cycle; the nitrogen cycle;
magnetism; superconductivity; the periodic table; chemical equilibrium; oxidation; catalysis; acids and
bases; covalent bonds; entropy; the second law of thermodynamics; kinetic energy; angular momentum; gravity;
special relativity; general relativity; black holes; neutron stars; dark matter; the expansion of the
universe; the cosmic microwave background; tides; eclipses; the seasons; comets; auroras; meteor showers;
volcanoes; earthquakes; glaciers; ocean currents; hurricanes; tornadoes; lightning; rainbows; fog; soil
erosion; coral bleaching; biodiversity; food webs; symbiosis; pollination; bird migration; hibernation;
camouflage; mitosis; meiosis; DNA replication; protein folding; CRISPR gene editing; dominant and recessive
genes; enzymes; the immune system; vaccines; antibiotics; antibiotic resistance; viruses; bacteria; blood
types; blood pressure; the human heart; the lungs; the kidneys; the liver; the nervous system; neurons;
memory; sleep cycles; dreams; the placebo effect; hormones; insulin; cholesterol; metabolism; digestion;
vitamins; allergies; asthma; muscle growth; bone healing; the human eye; hearing; the sense of smell; pain;
fever; ageing; stem cells; fermentation; crystals; polymers; alloys; glass; concrete; rust; semiconductors;
lasers; optical fibres; microscopes; telescopes; X-rays; ultrasound; magnetic resonance imaging; batteries;
fuel cells; solar panels; wind turbines; hydroelectric dams; nuclear reactors; heat pumps; refrigerators;
microwave ovens; jet engines; electric motors; internal combustion engines; bicycle gears; gyroscopes; sonar;
radar; satellites; space stations; rockets; quantum tunnelling; wave-particle duality; the uncertainty
principle; electron orbitals; isotopes; half-life; carbon dating; fossils; dinosaurs; mass extinctions;
continental drift; the carbon cycle; ozone; acid rain; ocean acidification; permafrost; desertification;
composting; photons; sound waves; resonance
""")

# Explain ___ . How does ___ work?
TECHNOLOGY = listed("""
the internet; a search engine; a web browser; DNS; HTTPS; public-key encryption; password hashing; a
firewall; a virtual private network; cloud computing; a content delivery network; a load balancer; a database
index; a relational database; a key-value store; transactions in a database; caching; garbage collection;
recursion; a compiler; an interpreter; a hash table; a linked list; a binary search tree; a heap; a stack; a
queue; a graph; breadth-first search; dynamic programming; sorting algorithms; big O notation; regular
expressions; unit tests; version control; continuous integration; containers; virtual machines; an operating
system; virtual memory; threads and processes; deadlock; a race condition; a message queue; a REST API;
webhooks; cookies; two-factor authentication; phishing; ransomware; a blockchain; digital signatures; QR
codes; barcodes; GPS; Bluetooth; Wi-Fi; 5G; a touch screen; a solid-state drive; RAM; a graphics card; a 3D
printer; a drone; a self-driving car; speech recognition; machine translation; a neural network; gradient
descent; overfitting; decision trees; clustering; a language model; image compression; video streaming;
noise-cancelling headphones; digital cameras; e-paper; LED lighting; induction cooking; a smart thermostat;
contactless payment; spam filters; recommendation systems; open-source licences; object-oriented programming;
functional programming; type systems; a microcontroller; binary numbers; floating-point arithmetic;
error-correcting codes; data compression; JSON; spreadsheets; a pivot table; a Kalman filter; robot vacuum
cleaners; lifts; traffic lights; air conditioning
""")

# Explain ___ . Give an example of ___ .
MATHS = listed("""
prime numbers; fractions; percentages; ratios; negative numbers; exponents; logarithms; square roots; the
Pythagorean theorem; similar triangles; the area of a circle; the volume of a cylinder; sine and cosine;
radians; linear equations; quadratic equations; systems of equations; inequalities; functions; polynomials;
arithmetic sequences; geometric series; limits; derivatives; the chain rule; integrals; partial derivatives;
vectors; matrices; determinants; eigenvalues; complex numbers; sets; permutations; combinations; probability;
conditional probability; Bayes' theorem; expected value; variance; the normal distribution; the median;
correlation; linear regression; hypothesis testing; p-values; confidence intervals; sampling bias;
mathematical induction; proof by contradiction; modular arithmetic; the greatest common divisor; the
Fibonacci sequence; the golden ratio; fractals; infinity; graph colouring; Euler's formula; compound
interest; the birthday problem; the Monty Hall problem; the travelling salesman problem; game theory; Venn
diagrams
""")

# Explain ___ . What does ___ mean for ordinary people?
SOCIETY = listed("""
inflation; interest rates; gross domestic product; supply and demand; monopolies; trade deficits; tariffs;
exchange rates; central banks; the stock market; bonds; index funds; mortgages; credit scores; insurance;
progressive taxation; value-added tax; pensions; minimum wages; trade unions; unemployment; the gig economy;
microfinance; bankruptcy; recession; hyperinflation; opportunity cost; sunk costs; economies of scale;
inequality; the separation of powers; constitutions; federalism; proportional representation; referendums;
judicial review; habeas corpus; juries; contracts; copyright; patents; trademarks; negligence; custody;
wills; tenancy law; data protection; freedom of speech; citizenship; asylum; human rights; the Geneva
Conventions; the United Nations; the European Union; diplomacy; sanctions; census taking; urban planning;
zoning; public transport; gentrification; recycling; fair trade; crowdfunding; advertising; propaganda; fact
checking; peer review; lobbying; populism; social class; stereotypes; culture shock; globalisation;
urbanisation; demographic change; universal basic income; confirmation bias; cognitive dissonance; the
bystander effect; peer pressure; attachment theory; burnout; procrastination; emotional intelligence;
introversion; mindfulness; grief; habits; motivation; stress; resilience; ethics; utilitarianism; stoicism;
existentialism; free will; the social contract; the trolley problem; logic; rhetoric; irony; metaphor;
grammar; dialects; sign language; loan words; poetry; the novel; tragedy; satire
""")

# Tell me about ___ . What led to ___ ?
HISTORY = listed("""
the fall of the Roman Empire; the building of the pyramids; the Silk Road; the Black Death; the Crusades; the
Magna Carta; the Renaissance; the Reformation; the invention of printing; the Age of Discovery; the Spanish
Armada; the Thirty Years' War; the Enlightenment; the American Revolution; the French Revolution; the Haitian
Revolution; the Napoleonic Wars; the Industrial Revolution; the Irish famine; the abolition of slavery; the
American Civil War; the Meiji Restoration; the unification of Italy; the gold rush in California; the
building of the Suez Canal; the Boer War; the First World War; the Russian Revolution; the Great Depression;
the Spanish Civil War; the Second World War; the Manhattan Project; the Marshall Plan; the partition of
India; the Korean War; the Cuban missile crisis; the space race; the Moon landing; the Vietnam War; the civil
rights movement; apartheid; the fall of the Berlin Wall; the end of the Soviet Union; the Rwandan genocide;
the invention of the World Wide Web; the Mongol Empire; the Ottoman Empire; the Aztecs; the Incas; the Maya;
the Vikings; ancient Athens; Sparta; the Persian Empire; the Qin dynasty; the Ming dynasty; the Mughal
Empire; the kingdom of Mali; Great Zimbabwe; the Hanseatic League; the East India Company; the Opium Wars;
women's suffrage; Prohibition in the United States; the Dust Bowl; the Panama Canal; the sinking of the
Titanic; the eruption of Vesuvius; the Great Fire of London; the Library of Alexandria
""")

# Who was ___ ? What is ___ remembered for?
PEOPLE = listed("""
Ada Lovelace; Alan Turing; Albert Einstein; Alexander the Great; Amelia Earhart; Anne Frank; Archimedes;
Aristotle; Beethoven; Benjamin Franklin; Catherine the Great; Charles Darwin; Charlie Chaplin; Cleopatra;
Confucius; Copernicus; Emily Dickinson; Florence Nightingale; Frida Kahlo; Galileo; Genghis Khan; Gandhi;
George Orwell; Grace Hopper; Harriet Tubman; Hypatia; Ibn Battuta; Isaac Newton; Jane Austen; Joan of Arc;
Johannes Gutenberg; Johannes Kepler; Julius Caesar; Karl Marx; Leonardo da Vinci; Louis Pasteur; Mansa Musa;
Marco Polo; Marie Curie; Mark Twain; Martin Luther King; Mary Shelley; Michelangelo; Mozart; Napoleon; Nelson
Mandela; Nikola Tesla; Pablo Picasso; Plato; Queen Victoria; Rachel Carson; Rosa Parks; Sappho; Shakespeare;
Sigmund Freud; Simón Bolívar; Socrates; Srinivasa Ramanujan; Sun Tzu; Vincent van Gogh; Virginia Woolf;
Voltaire; Wangari Maathai; William the Conqueror; Winston Churchill; Yuri Gagarin
""")

# Plan a trip to ___ . What is ___ known for?
PLACES = listed("""
Lisbon; Porto; Madrid; Seville; Granada; Barcelona; Paris; Lyon; Marseille; Brussels; Amsterdam; Berlin;
Munich; Vienna; Salzburg; Prague; Budapest; Warsaw; Kraków; Stockholm; Oslo; Bergen; Copenhagen; Helsinki;
Tallinn; Riga; Dublin; Edinburgh; Glasgow; London; Bath; York; Rome; Florence; Venice; Naples; Palermo;
Athens; Crete; Istanbul; Cairo; Marrakesh; Fez; Tunis; Nairobi; Zanzibar; Cape Town; Accra; Addis Ababa;
Jerusalem; Amman; Dubai; Tehran; Samarkand; Delhi; Mumbai; Jaipur; Kathmandu; Colombo; Bangkok; Chiang Mai;
Hanoi; Hue; Singapore; Jakarta; Manila; Beijing; Shanghai; Hong Kong; Taipei; Seoul; Tokyo; Kyoto; Osaka;
Sydney; Melbourne; Auckland; Queenstown; Fiji; Vancouver; Montreal; Toronto; New York; Boston; Chicago; New
Orleans; San Francisco; Seattle; Denver; Mexico City; Oaxaca; Havana; San José; Bogotá; Cartagena; Quito;
Lima; Cusco; La Paz; Santiago; Buenos Aires; Montevideo; Rio de Janeiro; Salvador; Iceland; Greenland; the
Azores; Sicily; the Scottish Highlands; the Black Forest
""")

COUNTRIES = listed("""
Argentina; Australia; Austria; Bangladesh; Belgium; Bolivia; Brazil; Bulgaria; Canada; Chile; China;
Colombia; Croatia; Cuba; Denmark; Ecuador; Egypt; Estonia; Ethiopia; Finland; France; Georgia; Germany;
Ghana; Greece; Hungary; Iceland; India; Indonesia; Iran; Ireland; Israel; Italy; Jamaica; Japan; Jordan;
Kazakhstan; Kenya; Laos; Latvia; Lebanon; Madagascar; Malaysia; Mali; Mexico; Mongolia; Morocco; Mozambique;
Nepal; the Netherlands; New Zealand; Nigeria; Norway; Pakistan; Panama; Paraguay; Peru; the Philippines;
Poland; Portugal; Romania; Rwanda; Senegal; Serbia; Slovenia; South Africa; South Korea; Spain; Sri Lanka;
Sweden; Switzerland; Tanzania; Thailand; Tunisia; Turkey; Uganda; Ukraine; Uruguay; Vietnam; Zambia
""")

# How do I ___ ? I want to ___ .
SKILLS = listed("""
learn to juggle; repair a bicycle tyre; change a car tyre; unblock a sink; fix a dripping tap; paint a room;
hang a picture straight; put up a shelf; sharpen a kitchen knife; season a cast-iron pan; bake sourdough
bread; cook rice without burning it; make fresh pasta; roast a chicken; poach an egg; make yoghurt at home;
brew coffee with a French press; make jam; pickle vegetables; freeze leftovers safely; plan meals for a week;
cook for one; pack for a two-week trip; sleep on a long flight; get over jet lag; find cheap train tickets;
learn Spanish in a year; improve my pronunciation; remember people's names; read faster; take better notes;
study for an exam; stop procrastinating; wake up earlier; fall asleep faster; keep a diary; meditate; start
running; train for a half marathon; do my first pull-up; swim front crawl; stretch after sitting all day;
lose weight slowly; gain muscle; eat more vegetables; drink less coffee; quit smoking; give up sugar; ask for
a pay rise; write a CV; prepare for a job interview; resign politely; give critical feedback; run a short
meeting; delegate work; manage a remote team; deal with a difficult colleague; apologise sincerely; say no
without feeling guilty; make friends in a new city; keep in touch with old friends; host a dinner party;
write a wedding speech; write a thank-you note; write a complaint; negotiate a lower rent; choose a mortgage;
save for a house; make a household budget; start investing with little money; file my taxes; spot a scam
email; choose a strong password; back up my photos; speed up an old laptop; install Linux; build a simple
website; learn to program; debug a slow program; write a good commit message; review code kindly; design a
survey; read a scientific paper; give a talk without fear; write a short story; write a poem; learn to draw;
take better portraits; photograph the night sky; play the guitar; sing in tune; learn to read music; dance
salsa; grow tomatoes on a balcony; keep houseplants alive; prune a rose; start a compost heap; attract bees
to a garden; keep chickens; train a puppy; introduce two cats; set up an aquarium; clean a fish; sew on a
button; hem trousers; knit a scarf; remove a wine stain; wash a woollen sweater; polish shoes; iron a shirt;
fold a fitted sheet; tidy a small flat; move house without stress; reduce my electricity bill; insulate a
window; get rid of mould; keep mice out; clean an oven; descale a kettle; teach a child to ride a bike; help
a child with maths; talk to teenagers; look after an elderly parent; babysit a toddler; plan a birthday party
for children; build a campfire; pitch a tent; read a map; use a compass; treat a blister; treat a burn; stop
a nosebleed; make a first-aid kit; learn to drive; drive on snow; parallel park; ride a horse; learn to surf;
learn chess; solve a Rubik's cube; play poker; do a card trick; whistle with my fingers; tie a tie; shave
properly
""")

# I work as a ___ . Act as a ___ .
JOBS = listed("""
nurse; primary school teacher; carpenter; electrician; plumber; baker; chef; waiter; librarian; journalist;
photographer; architect; civil engineer; software developer; data analyst; accountant; lawyer; police
officer; firefighter; paramedic; dentist; vet; pharmacist; physiotherapist; psychologist; social worker;
farmer; gardener; fisherman; truck driver; train driver; pilot; flight attendant; travel agent; tour guide;
museum curator; actor; musician; painter; novelist; translator; estate agent; salesperson; marketing manager;
human resources officer; project manager; nutritionist; personal trainer; football coach; hairdresser;
tailor; florist; postman; cleaner; security guard; marine biologist; geologist; astronomer; chemist;
statistician; economist; historian; philosopher; judge; diplomat; mayor; stand-up comedian; career adviser;
financial adviser; customer service agent; bookseller
""")

ANIMALS = listed("""
octopuses; penguins; elephants; honeybees; ants; spiders; owls; crows; hummingbirds; eagles; parrots;
flamingos; whales; dolphins; sharks; seahorses; jellyfish; salmon; eels; frogs; salamanders; crocodiles;
tortoises; snakes; chameleons; bats; hedgehogs; squirrels; beavers; otters; foxes; wolves; bears; lions;
tigers; cheetahs; giraffes; zebras; hippos; rhinos; camels; horses; donkeys; goats; sheep; cows; pigs;
rabbits; mice; cats; dogs; kangaroos; koalas; platypuses; sloths; gorillas; chimpanzees; lemurs; butterflies;
dragonflies; fireflies; snails; earthworms
""")

DISHES = listed("""
lentil soup; tomato soup; onion soup; ramen; pho; miso soup; paella; risotto; biryani; fried rice; couscous;
tabbouleh; hummus; falafel; shakshuka; Spanish omelette; quiche; pancakes; waffles; scones; banana bread;
carrot cake; apple pie; cheesecake; tiramisu; chocolate mousse; rice pudding; ice cream; lasagne; carbonara;
pesto; gnocchi; pizza; focaccia; burritos; tacos; guacamole; ceviche; empanadas; chilli; goulash; beef stew;
shepherd's pie; fish and chips; grilled salmon; fish tacos; roast vegetables; potato salad; Greek salad;
Caesar salad; coleslaw; stir-fried tofu; chicken curry; dal; naan; samosas; spring rolls; dumplings; sushi;
kimchi; pickled cucumbers; granola; porridge
""")

# Write about ___ .
THINGS = listed("""
an old lighthouse; a lost umbrella; a train that never stops; a forgotten letter; a broken violin; a city
under water; a library at night; a talking crow; a clock that runs backwards; the last tree in town; a robot
gardener; a key that fits no door; a painting that changes; a snowstorm in June; two rival bakers; a lonely
astronaut; a grandmother's recipe; the first day at a new school; a bus driver who sings; a map drawn by a
child; a haunted hotel; a missing cat; a stolen bicycle; a promise kept too late; a neighbour's secret; an
island without names; the sound of rain; the sea in winter; a crowded market; a quiet village; autumn leaves;
growing old; a first job; a farewell at an airport; the smell of bread; a long drive home; a dragon who is
afraid of fire; a detective with no memory; a ghost who misses coffee; a queen who wants to be a farmer; an
elevator that stops between floors; a shipwreck; a desert caravan; a time traveller's mistake; an invention
that goes wrong; a football match in the rain; a photograph found in a book; a street musician; a wolf in the
city; a wedding without guests; a power cut; the moon; the colour blue; coffee; friendship; hope; silence;
homesickness; a summer afternoon; a river; a mountain hut; bread
""")

# We are launching ___ . Describe ___ .
PRODUCTS = listed("""
a reusable water bottle; noise-cancelling headphones; a folding bicycle; a solar phone charger; an electric
toothbrush; a vegan burger; a language-learning app; a budgeting app; a plant-watering sensor; a standing
desk; a mechanical keyboard; a travel backpack; a children's book about space; a podcast on local history; a
neighbourhood bakery; a mobile dog-grooming service; an online chess course; a second-hand clothes shop; a
meal-kit service; a yoga studio; a coworking space; a board game about beekeeping; hand-made soap; a craft
beer; organic dog food; a smart doorbell; a robot lawnmower; a rain jacket made from old bottles; a pocket
projector; a bamboo cutting board; a repair café; a city bike-sharing scheme; a museum audio guide; an
electric scooter; a kitchen scale; a wool blanket
""")

# ___ or ___ ? Compare ___ and ___ .
PAIRS = listed("""
cats / dogs; tea / coffee; city life / country life; renting / buying a home; electric cars / petrol cars;
trains / planes; paper books / e-books; gas stoves / induction stoves; butter / margarine; Python /
JavaScript; Python / C++; Java / Go; SQL / NoSQL databases; tabs / spaces; Linux / Windows; monoliths /
microservices; REST / GraphQL; TCP / UDP; processes / threads; arrays / linked lists; breadth-first search /
depth-first search; mergesort / quicksort; supervised learning / unsupervised learning; bagging / boosting;
mean / median; correlation / causation; speed / velocity; mass / weight; heat / temperature; weather /
climate; viruses / bacteria; DNA / RNA; plant cells / animal cells; arteries / veins; frogs / toads;
crocodiles / alligators; moths / butterflies; rabbits / hares; the Arctic / the Antarctic; stars / planets;
meteors / comets; nuclear fission / nuclear fusion; alternating current / direct current; stocks / bonds;
debit cards / credit cards; leasing / buying a car; full-time jobs / freelancing; working at home / working
in an office; small companies / large companies; private schools / public schools; online courses / classroom
teaching; learning alone / learning in a group; capitalism / socialism; democracy / dictatorship; civil law /
common law; the House / the Senate; monarchies / republics; Buddhism / Hinduism; Athens / Sparta; the
Renaissance / the Enlightenment; Plato / Aristotle; Mozart / Beethoven; novels / short stories; films /
theatre; acoustic guitars / electric guitars; watercolours / oil paints; film cameras / digital cameras; yoga
/ pilates; running / cycling; free weights / machines; football / rugby; chess / go; camping / hotels; beach
holidays / mountain holidays; hand washing / dishwashers; baking / frying; brown rice / white rice; olive oil
/ sunflower oil; wool / cotton; leather / canvas; wood / plastic; solar power / wind power; hydropower /
nuclear power; optimism / realism; empathy / sympathy; envy / jealousy; ethics / law; "affect" / "effect";
"less" / "fewer"; "who" / "whom"; "ser" / "estar"
""")

# Do you think ___ ? Argue for and against: ___ .
CLAIMS = listed("""
schools should ban mobile phones; homework does more harm than good; everyone should learn to code; museums
should be free; cities should be closed to private cars; the voting age should be sixteen; voting should be
compulsory; zoos should be abolished; people should eat less meat; social media makes people lonely; working
from home is better for most people; a four-day week should be the norm; university should be free; tips
should be replaced by higher wages; advertising to children should be banned; space exploration is worth its
cost; nuclear power is needed; tourism damages old cities; fast fashion should be taxed; books are better
than films; art needs no explanation; money cannot buy happiness; failure teaches more than success; patience
matters more than talent; machines will take most jobs; artificial intelligence should be regulated; privacy
matters more than convenience; cash should never disappear; children should have pets; sport should be
compulsory at school; exams should be abolished; history repeats itself; small talk is useful; reading
fiction makes people kinder; supermarkets should give away unsold food; plastic bags should be banned; public
transport should be free; football clubs are too rich; lying is sometimes right; handwriting still matters;
Latin should be taught; uniforms make schools fairer; old buildings should be kept at any cost
""")
