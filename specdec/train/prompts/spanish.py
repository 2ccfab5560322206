"""Prompts in Spanish: questions, explanations, letters, recipes, sums, code, summaries, a little of all."""

from specdec.train.prompts.topics import PLACES, listed
from specdec.train.prompts.words import FIRST_NAMES, SURNAMES, Pick

TEMAS = listed("""
la fotosíntesis; la gravedad; los volcanes; las mareas; el cambio climático; las vacunas; los virus; el
sistema solar; los agujeros negros; la energía solar; la inteligencia artificial; las bases de datos; el
internet; la criptografía; las fracciones; los números primos; el teorema de Pitágoras; la probabilidad; la
inflación; la democracia; la Revolución francesa; el Imperio romano; la Guerra Civil española; los incas; los
mayas; el Siglo de Oro; la poesía; el flamenco; el tango; la metáfora; la memoria; el sueño; la ansiedad; la
dieta mediterránea; el reciclaje; los sindicatos; las hipotecas; los impuestos; el teletrabajo; las redes
sociales; los dinosaurios; las ballenas; las abejas; el corazón; la digestión; el átomo; la célula
""")
PLATOS = listed("""
una tortilla de patatas; un gazpacho; una paella; unas lentejas; un arroz con leche; unas empanadas; un
ceviche; un mole; unas croquetas; un guacamole; un flan; una sopa de ajo; un pisto; unas arepas; un asado; un
pan casero
""")
OFICIOS = listed("""
enfermera; maestro; carpintero; abogada; periodista; cocinero; ingeniera; fontanero; arquitecta; músico;
bibliotecaria; agricultor; programadora; traductora; taxista; médica
""")
COSAS = listed("""
un faro abandonado; una carta perdida; un tren nocturno; una abuela valiente; un gato que habla; una
biblioteca secreta; un reloj parado; una isla sin nombre; un pueblo bajo la nieve; un violín roto; el mar en
invierno; una llave sin puerta; un mercado al amanecer; la última noche del verano; un robot jardinero; una
promesa olvidada
""")
ACCIONES = listed("""
aprender inglés; dormir mejor; ahorrar dinero; correr cinco kilómetros; escribir un currículum; preparar una
entrevista; hacer pan; cuidar una planta; dejar de fumar; hablar en público; organizar un viaje; tocar la
guitarra; cambiar una rueda; estudiar para un examen; hacer amigos en una ciudad nueva; empezar a programar;
reducir el estrés; ordenar mi casa; pedir un aumento; arreglar un grifo
""")
FRASES = listed("""
Hola, ¿[qué puedes hacer|cómo estás|quién eres]?; ¿Qué [es|son] {t}?; Explícame {t} [en pocas palabras|como
si tuviera diez años|con un ejemplo|paso a paso].; ¿Por qué [es importante|nos afecta] {t}?; Escribe un
resumen sobre {t}.; Dame tres datos curiosos sobre {t}.; Haz tres preguntas de examen sobre {t}, con sus
respuestas.; Escribe un [cuento breve|poema|diálogo] sobre {c}.; Inventa un título para una novela sobre
{c}.; Continúa esta historia: Aquella mañana, {A} encontró {c}.; ¿Cómo se prepara {p}?; Dame una receta de
{p} para {n} personas.; Mi {p2} siempre sale mal. ¿Qué hago?; ¿Cómo puedo {x}?; Dame {n} consejos para {x}.;
Quiero {x}, pero no tengo tiempo. ¿Qué me recomiendas?; Haz un plan de una semana para {x}.; Organiza un
viaje de {n} días a {l}.; ¿Qué se puede ver en {l}?; ¿Qué tiempo hace en {l} en [enero|abril|julio|octubre]?;
Escribe un correo a mi [jefe|casero|profesora|banco] para [pedir un día libre|quejarme del ruido|cambiar una
cita|reclamar una factura].; Escribe una carta de presentación para un puesto de {o}.; Actúa como {o} y [dame
un consejo|cuéntame tu día|responde a mis dudas sobre {t}].; {A} tiene {n} manzanas y compra {m} más. Regala
la mitad. ¿Cuántas le quedan?; Un libro cuesta {m} euros y tiene un descuento del {n}0 %. ¿Cuánto se paga?;
Un tren recorre {m}0 kilómetros en {n} horas. ¿A qué velocidad va?; ¿Cuánto es {m} por {n}?; Escribe una
función en Python que [cuente las vocales de un texto|ordene una lista|diga si un número es primo|invierta
una palabra|sume los números pares].; Traduce al inglés: {f}; Corrige este texto: "{e}"; ¿Cuál es la
diferencia entre {t} y {t2}?; ¿Qué opinas de {t}?; Dame argumentos a favor y en contra de {t}.; Cuéntame un
chiste sobre {c}.; ¿Cuál es la capital de [Perú|Chile|Francia|Japón|Egipto|Canadá|Kenia|Noruega|Portugal]?;
¿Quién fue {q}?; Escribe una lista de [cinco|diez] [libros|palabras|ideas|ejemplos] sobre {t}.; Resume en una
frase: {r}; Lee el texto y responde: ¿quién hizo qué y cuándo? {r}; Extrae los nombres, los lugares y las
fechas: {r}; Pon un título a esta noticia: {r}; ¿Qué significa la expresión "[estar en las nubes|no tener
pelos en la lengua|tirar la toalla|echar una mano|meter la pata|dar en el clavo]"?
""")
NOTICIAS = listed("""
{A} {S}, {o} de profesión, inauguró el {n} de [marzo|mayo|octubre] una escuela en {l}. [La obra costó
{m}0.000 euros y duró {n} años.|Asistieron {m}0 vecinos.] [El alcalde prometió un nuevo autobús.|Las clases
empezarán en otoño.]; El río se desbordó el [lunes|jueves] cerca de {l} y dejó {m} casas sin luz. [No hubo
heridos.|{A} {S} fue rescatada por los bomberos.] Los trabajos [durarán {n} días|siguen esta semana].; La
empresa de {A} {S} venderá {p} en {n} países. [Fundada en 19{m}, da trabajo a {m}0 personas.|El pedido más
grande viene de {l}.]; El equipo de {l} ganó por {n} a 1 con un gol de {A} {S} en el minuto {m}. [El
entrenador habló de suerte.|El público celebró hasta la madrugada.]
""")
ERRORES = listed("""
Yo gusta mucho el fútbol.; Ayer voy al cine con mi amigos.; Ella es mas alta que yo y tengo veinte anos.;
Haber si nos vemos mañana.; Las problema son difícil.; Me dijo que venir a las ocho.; Hubieron muchas
personas en la fiesta.
""")
FRASES_SUELTAS = listed("""
Nos vemos el domingo si no llueve.; Me alegro de que hayas venido.; El tren acaba de salir.; Hace un frío que
pela.; Ojalá tuviera más tiempo.; No me di cuenta de la hora.; La sopa está sosa.; Se me olvidó el paraguas.
""")
QUIENES = listed("""
Cervantes; Frida Kahlo; Simón Bolívar; Picasso; Marie Curie; Galileo; Gabriela Mistral; Velázquez; Cleopatra;
Goya; Lorca; Darwin
""")


def spanish(pick: Pick) -> str:
    t, t2 = pick.some(TEMAS, 2)
    dish = pick.one(PLATOS)
    values = {
        "t": t,
        "t2": t2,
        "c": pick.one(COSAS),
        "p": dish,
        "p2": dish.split(" ", 1)[1],
        "x": pick.one(ACCIONES),
        "n": str(pick.randint(2, 9)),
        "m": str(pick.randint(11, 89)),
        "o": pick.one(OFICIOS),
        "l": pick.one([place for place in PLACES if not place.startswith("the ")]),
        "A": pick.one(FIRST_NAMES),
        "S": pick.one(SURNAMES),
        "f": pick.one(FRASES_SUELTAS),
        "e": pick.one(ERRORES),
        "q": pick.one(QUIENES),
    }
    values["r"] = pick.fill(pick.fill(pick.one(NOTICIAS), values), values)
    return pick.fill(pick.fill(pick.one(FRASES), values), values)
